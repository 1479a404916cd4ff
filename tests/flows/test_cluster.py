"""Stages in pods and a champion in a real cluster: one node of Kubernetes, which `tests/flows/cluster.sh build` compiles.

Git, Prefect and the object store want credentials, which pods get from Secrets.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from benchmarks.promote.constant_load import sending
from paddleship.containers import image
from paddleship.promotion.ledger import Ledger
from paddleship.servers.background import free_port
from tests.e2e import git_server
from tests.e2e.machines import served
from tests.flows.helpers import PREFECT, PROGRAM, REPOSITORY, git, register_pool, wait_for
from tests.flows.test_pipeline import row_of

CLUSTER = REPOSITORY / "tests/flows/cluster.sh"
BIN = Path(sys.executable).parent
SPACE, POOL, IMAGE = "paddleship", "k8s", "paddleship/test-pods:1"
KEYS = {"AWS_ACCESS_KEY_ID": "cluster", "AWS_SECRET_ACCESS_KEY": "of-a-test-only-31", "AWS_DEFAULT_REGION": "us-east-1"}
PREFECT_LOGIN = "admin:of-a-test-only-47"
SECRETS = (KEYS["AWS_SECRET_ACCESS_KEY"], PREFECT_LOGIN, git_server.PASSWORD)
PREDICT = "/v2/models/linear/infer"
BODY = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 1.5]}]}).encode()

pytestmark = [
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.engine,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(
        not Path("/var/lib/paddleship/kubernetes/bin/kubelet").exists(), reason="needs a cluster: `tests/flows/cluster.sh build`"
    ),
]


@pytest.fixture(scope="module")
def kubectl(engine):
    settings = os.environ | {"DOCKER_HOST": image.host_of(engine)}
    try:
        done = subprocess.run([CLUSTER, "start"], env=settings, capture_output=True, text=True, check=False, timeout=400)
        assert done.returncode == 0, done.stderr
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("KUBECONFIG", done.stdout.strip())
            yield lambda *words, **more: subprocess.run(["kubectl", *words], capture_output=True, text=True, check=True, **more).stdout
    finally:
        subprocess.run([CLUSTER, "stop"], env=settings, check=True, timeout=400)


@pytest.fixture(scope="module")
def pod_image(engine, tmp_path_factory):
    """The training image on a base image with git, as docs/how-to/kubernetes.md wants it for pods."""
    settings = os.environ | {"DOCKER_HOST": image.host_of(engine), "PYTHON": sys.executable}
    subprocess.run(
        [REPOSITORY / "infra/stack_image.sh"], env=settings, check=True, capture_output=True, timeout=1500
    )  # makes debian:12-slim
    packages = "ca-certificates git python3.11"
    folder = tmp_path_factory.mktemp("base")
    (folder / "Dockerfile").write_text(
        f"FROM debian:12-slim\nRUN apt-get update -qq && apt-get install -y -qq --no-install-recommends {packages} "
        "&& rm -rf /var/lib/apt/lists/* && ln -s /usr/bin/python3.11 /usr/local/bin/python\n"
    )
    base = "paddleship/test-python-git:1"
    for command, more in (
        (["docker", "build", "--quiet", "--tag", base, str(folder)], {}),
        ([REPOSITORY / "infra/train_image.sh", IMAGE], {"BASE_IMAGE": base, "EXTRAS": "kubernetes-worker"}),
    ):
        done = subprocess.run(command, env=settings | more, capture_output=True, text=True, check=False, timeout=1200)
        assert done.returncode == 0, done.stdout + done.stderr
    return IMAGE


@pytest.fixture(scope="module")
def checkout(linear_checkout_of, gateway, with_tables, tmp_path_factory):
    """A checkout whose remotes pods reach, with all servers running; `environment` of its user is beside it."""
    base = tmp_path_factory.mktemp("servers")
    git_port, s3_port, prefect_port, mlflow_port = (free_port() for _ in range(4))
    checkout = linear_checkout_of("cluster", optimize={"candidates": ["paddle", "onnxruntime"]})
    storage = f"url = s3://data/dvc\nendpointurl = http://{gateway}:{s3_port}\nregion = us-east-1\n"
    (checkout / ".dvc/config").write_text(f"[core]\nremote = storage\nanalytics = false\n['remote \"storage\"']\n{storage}")
    git(checkout, "commit", "-qam", "a remote that pods reach")
    git(base, "clone", "--quiet", "--bare", str(checkout), str(base / "origin.git"))
    git(checkout, "remote", "add", "origin", f"http://{gateway}:{git_port}/origin.git")
    (base / "credentials").write_text(f"http://{git_server.USER}:{git_server.PASSWORD}@{gateway}:{git_port}\n")
    git(checkout, "config", "credential.helper", f"store --file {base / 'credentials'}")
    (base / "gitconfig").write_text("[credential]\n\thelper = store --file /etc/paddleship/git/credentials\n")
    (base / "buckets/data").mkdir(parents=True)
    home = with_tables(base / "state") / ".paddleship"
    api = f"http://{gateway}:{prefect_port}/api"
    store = {
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_SERVER_API_AUTH_STRING": PREFECT_LOGIN,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    }
    keys = {"NANIO_ACCESS_KEY": KEYS["AWS_ACCESS_KEY_ID"], "NANIO_SECRET_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]}
    mlflow = f"{BIN / 'mlflow'} server --host {gateway} --port {mlflow_port} --workers 1 --allowed-hosts * "
    mlflow += f"--backend-store-uri sqlite:///{home / 'mlflow.db'} --artifacts-destination {base / 'artifacts'}"
    wanted = (
        (git_port, f"{sys.executable} -m tests.e2e.git_server {gateway} {git_port} {base / 'origin.git'}", {"PYTHONPATH": str(REPOSITORY)}),
        (s3_port, f"{BIN / 'nanio'} serve --data-dir {base / 'buckets'} --host {gateway} --port {s3_port}", keys),
        (prefect_port, f"{BIN / 'prefect'} server start --host {gateway} --port {prefect_port}", store),
        (mlflow_port, mlflow, {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}),
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW", "PYTHONPATH"))}
    servers = {"PREFECT_API_URL": api, "PREFECT_API_AUTH_STRING": PREFECT_LOGIN, "MLFLOW_TRACKING_URI": f"http://{gateway}:{mlflow_port}"}
    ours = {"PREFECT_HOME": str(base / "prefect-home"), "PYTHONPATH": str(checkout), "COLUMNS": "200"}
    with contextlib.ExitStack() as stack:
        for port, command, environment in wanted:
            stack.enter_context(served(base / f"server-{port}", command.split(), address=(gateway, port), **environment))
        yield checkout, kept | KEYS | servers | ours


@pytest.fixture(scope="module")
def pool(checkout, kubectl, pod_image, tmp_path_factory):
    """The pool, and its worker in the cluster, set up as docs/how-to/kubernetes.md says."""
    folder, environment = checkout
    secrets = Path(environment["PREFECT_HOME"]).parent
    kubectl("create", "namespace", SPACE)
    values = {
        "paddleship-prefect": [f"--from-literal={name}={environment[name]}" for name in ("PREFECT_API_URL", "PREFECT_API_AUTH_STRING")],
        "paddleship-env": [f"--from-literal={name}={environment[name]}" for name in ("MLFLOW_TRACKING_URI", *KEYS)],
        "paddleship-git": [f"--from-file={name}={secrets / name}" for name in ("gitconfig", "credentials")],
    }
    for name, given in values.items():
        kubectl("-n", SPACE, "create", "secret", "generic", name, *given)
    branch = git(folder, "symbolic-ref", "--short", "HEAD").strip()
    where = {"GIT_URL": git(folder, "remote", "get-url", "origin").strip(), "BRANCH": branch}
    variables = {"memory_limit": "4Gi", "memory_request": "1Gi", "cpu_request": "500m", "disk": "10Gi"}
    done = register_pool(environment, "kubernetes", POOL, pod_image, json.dumps(variables), **where)
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = (REPOSITORY / "infra/kubernetes/worker.yaml").read_text().replace("paddleship/train:latest", pod_image)
    kubectl("apply", "-f", "-", input=manifest)
    wait_for(lambda: "started!" in worker_log(kubectl))
    return POOL


def worker_log(kubectl):
    with contextlib.suppress(subprocess.CalledProcessError):
        return kubectl("-n", SPACE, "logs", "deployment/paddleship-worker")
    return ""


def pods(kubectl):
    """The running pods of legs."""
    found = json.loads(kubectl("-n", SPACE, "get", "pods", "-l", "prefect.io/flow-run-id", "-o", "json"))["items"]
    return [pod["metadata"]["name"] for pod in found if pod["status"]["phase"] == "Running"]


def start(checkout, *arguments):
    folder, environment = checkout
    return subprocess.Popen(
        [PROGRAM, "run", *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def test_stages_run_in_pods_and_no_credential_is_in_a_job(checkout, pool, kubectl):
    with start(checkout, "--until", "verify", "--on", f"train={pool}", "--on", f"verify={pool}") as run:
        output, _ = run.communicate(timeout=900)
    assert run.returncode == 0, output + worker_log(kubectl)
    finished = subprocess.CompletedProcess((), 0, output)
    assert [row_of(stage, finished)[4] for stage in ("train", "verify")] == [f"({pool})"] * 2
    for said in (kubectl("-n", SPACE, "get", "jobs,pods", "-o", "json"), worker_log(kubectl)):
        assert not [secret for secret in SECRETS if secret in said]


def test_a_pod_that_is_deleted_is_a_leg_that_is_started_again_and_its_replacement_does_nothing(checkout, pool, kubectl, tmp_path):
    (tmp_path / "longer.yaml").write_text("train: {epochs: 2000, patience: 2000}\n")
    with start(checkout, "--until", "train", "--on", f"train={pool}", "--params", str(tmp_path / "longer.yaml")) as run:
        (first,) = wait_for(lambda: pods(kubectl))
        wait_for(lambda: "tasks.train" in kubectl("-n", SPACE, "logs", first))
        kubectl("-n", SPACE, "delete", "pod", first, "--wait=false")
        output, _ = run.communicate(timeout=900)
    assert run.returncode == 0, output + worker_log(kubectl)
    assert f"the worker of '{pool}' was lost in attempt 1 of 3" in output
    job = first.rpartition("-")[0]
    replacements = kubectl("-n", SPACE, "get", "pods", "-l", f"job-name={job}", "-o", "name").split()
    for pod in replacements:  # this version of Kubernetes makes one
        assert "> python -m tasks." not in kubectl("-n", SPACE, "logs", pod)
    legs = json.loads(flow_runs(checkout))
    assert sorted(leg["state"]["name"] for leg in legs if "train" in leg["name"])[-3:] == ["Completed", "Completed", "Crashed"]


def flow_runs(checkout):
    folder, environment = checkout
    command = [PREFECT, "flow-run", "ls", "--flow-name", "run-stages", "--output", "json"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_pod_ends_with_the_run_that_started_it(checkout, pool, kubectl, tmp_path):
    (tmp_path / "longer.yaml").write_text("train: {epochs: 200000, patience: 200000}\n")
    with start(checkout, "--until", "train", "--on", f"train={pool}", "--params", str(tmp_path / "longer.yaml")) as run:
        wait_for(lambda: pods(kubectl))
        run.send_signal(2)
        run.communicate(timeout=200)
    assert run.returncode == 130
    wait_for(lambda: not pods(kubectl))


def test_the_worker_may_do_no_more_than_it_needs(pool, kubectl):
    def may(*words):
        account = f"system:serviceaccount:{SPACE}:paddleship-worker"
        done = subprocess.run(["kubectl", "auth", "can-i", *words, "--as", account], capture_output=True, text=True, check=False)
        return done.stdout.strip() == "yes"

    assert may("create", "jobs", "-n", SPACE)
    assert may("get", "pods/log", "-n", SPACE)
    for words in (("get", "secrets"), ("create", "pods"), ("delete", "pods"), ("create", "deployments")):
        assert not may(*words, "-n", SPACE), words
    assert not may("create", "jobs", "-n", "default")


@pytest.fixture(scope="module")
def cluster(kubectl, versions):
    """The cluster, without the champion's servers afterwards, because the engine keeps images that are in use."""
    yield kubectl
    kubectl("delete", "deployment,service", "linear")
    wait_for(lambda: "linear-" not in kubectl("get", "pods", "-o", "name"))


def test_a_promotion_and_a_rollback_in_the_cluster_cost_no_client_an_answer(cluster, versions, image_registry, tmp_path):
    team = versions.copy(tmp_path / "state")
    target = {"kind": "kubernetes", "name": "linear", "port": 80, "context": "paddleship-test", "manifest": "kubernetes.yaml"}
    team.settings(registry=image_registry, target=target)
    first = team.run("1", "promote", "1")
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout.splitlines()[-1].startswith("version 1 of linear is champion and serves as linear")
    host = cluster("get", "service", "linear", "-o", "jsonpath={.spec.clusterIP}")
    with sending(80, PREDICT, BODY, host=host) as seen:
        done = [team.run("2", "promote", "2"), team.run("2", "rollback")]
    assert [one.returncode for one in done] == [0, 0], done[0].stderr + done[1].stderr
    assert seen.errors == []
    assert seen.sent > 500
    assert serving(cluster) == Ledger(team.ledger, "linear").serving().shipped.candidate_digest == digest(team, "1")


def test_a_version_that_no_node_can_run_leaves_the_champion_serving(cluster, versions, image_registry, tmp_path):
    """The state of the cluster is that of the test before: the champion is version 1."""
    team = versions.copy(tmp_path / "state")
    target = {"kind": "kubernetes", "name": "linear", "port": 80, "context": "paddleship-test", "manifest": "kubernetes.yaml"}
    team.settings(registry=image_registry, target=target)
    assert team.run("1", "promote", "1").returncode == 0
    for folder in team.checkouts.values():
        path = folder / "params.yaml"
        values = yaml.safe_load(path.read_text())
        values["accept"] |= {"memory_bytes": 900_000_000_000, "ready_timeout_s": 5}
        path.write_text(yaml.safe_dump(values, sort_keys=False))
    refused = team.run("2", "promote", "2")
    assert refused.returncode == 4
    assert "Unschedulable: 0/1 nodes are available" in refused.stderr
    assert serving(cluster) == digest(team, "1")


def serving(kubectl):
    """The digest of the candidate that the service says it holds."""
    said = kubectl("get", "--raw", "/api/v1/namespaces/default/services/linear:http/proxy/v2/models/linear")
    return json.loads(said)["parameters"]["candidate_digest"]


def digest(team, version):
    return json.loads((team.checkouts[version] / "release.json").read_text())["candidate_digest"]
