"""The services of infra/compose.yaml in use: a run to an image in their registry, a restart that loses nothing, and no secret to be seen.

The worker of the stack has no engine: a worker of another pool, on this machine, runs `package` and `accept`. The git server asks for
a password.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

from paddleship.containers import image
from paddleship.servers.background import free_port
from tests.e2e import git_server
from tests.e2e.machines import served
from tests.flows.helpers import PROGRAM, REPOSITORY, git, prefect_api, wait_for

NAME = f"paddleship-test-{os.getpid()}"
SERVICES = {"postgres", "store", "registry", "prefect", "mlflow", "worker"}

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.engine, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def checkout(linear_checkout_of, ports):
    """The checkout of a user: its params name the stack's registry."""
    promote = {"registry": f"127.0.0.1:{ports['REGISTRY_PORT']}", "target": None}
    repository = {"repository": f"paddleship/test-stack-{os.getpid()}"}
    checkout = linear_checkout_of("stack", optimize={"candidates": ["paddle", "onnxruntime"]}, package=repository, promote=promote)
    git(checkout, "commit", "-qam", "the linear example")
    return checkout


@pytest.fixture(scope="module")
def ports():
    return {name: str(free_port()) for name in ("PREFECT_PORT", "MLFLOW_PORT", "STORE_PORT", "REGISTRY_PORT")}


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    return tmp_path_factory.mktemp("secrets")


@pytest.fixture(scope="module")
def origin(checkout, secrets, gateway):
    """The address of a private git repository, which the containers reach; the user and the stack have its password in a file."""
    bare = secrets.parent / "origin.git"
    git(checkout, "clone", "--quiet", "--bare", str(checkout), str(bare))
    port = free_port()
    command = [sys.executable, "-m", "tests.e2e.git_server", gateway, str(port), str(bare)]
    with served(secrets.parent / "git", command, address=(gateway, port), PYTHONPATH=str(REPOSITORY)):
        address = f"http://{gateway}:{port}/origin.git"
        credentials = secrets / "git_credentials"
        credentials.write_text(address.replace("://", f"://{git_server.USER}:{git_server.PASSWORD}@").removesuffix("/origin.git"))
        git(checkout, "remote", "add", "origin", address)
        git(checkout, "config", "credential.helper", f"store --file {credentials}")
        yield address


@pytest.fixture(scope="module")
def settings(checkout, ports, secrets, origin, engine):
    """The variables of that user, whose stack has a name and ports of its own."""
    own = {
        "STACK_NAME": NAME,
        "STACK_REPOSITORY": origin,
        "STACK_SECRETS": str(secrets),
        "DOCKER_HOST": image.host_of(engine),
        "AWS_SHARED_CREDENTIALS_FILE": str(secrets / "store_credentials"),
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW", "PYTHONPATH"))}
    clients = {
        "PREFECT_API_URL": f"http://127.0.0.1:{ports['PREFECT_PORT']}/api",
        "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{ports['MLFLOW_PORT']}",
        "PYTHON": sys.executable,
        "COLUMNS": "200",
    }
    return kept | ports | own | clients


def stack(settings, action):
    done = subprocess.run([REPOSITORY / "infra/stack.sh", action], env=settings, capture_output=True, text=True, check=False, timeout=1500)
    assert done.returncode == 0, done.stdout + done.stderr + logs("worker")
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def up(settings):
    try:
        yield stack(settings, "up")
    finally:
        stack(settings, "remove")


@pytest.fixture(scope="module")
def engine_worker(checkout, settings, up):
    """A worker of the pool `engine` in the checkout, which uses the stack's object store; its log."""
    dvc = [str(Path(sys.executable).parent / "dvc"), "remote"]
    for command in ("add --local --default stack s3://dvc", f"modify --local stack endpointurl {store_url(settings)}"):
        subprocess.run([*dvc, *command.split()], cwd=checkout, check=True, capture_output=True)
    log = checkout / ".paddleship/worker.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as stream:
        process = subprocess.Popen([PROGRAM, "worker", "--pool", "engine"], cwd=checkout, env=settings, stdout=stream, stderr=stream)
    wait_for(lambda: "started!" in log.read_text() or process.poll() is not None)
    assert process.poll() is None, log.read_text()
    yield log
    process.terminate()
    process.wait(300)


@pytest.fixture(scope="module")
def ran(checkout, settings, engine_worker, engine):
    """A run on the worker of the stack, which sends the stages of the image to the other one."""
    on = ("--on", "package=engine", "--on", "accept=engine")
    command = [PROGRAM, "run", "--deployment", "develop-to-deploy/local", *on]
    done = subprocess.run(command, cwd=checkout, env=settings, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr + logs("worker") + engine_worker.read_text()
    yield
    for made in image.labelled(engine, "io.paddleship.model=linear"):
        if any(f"/test-stack-{os.getpid()}:" in tag for tag in made.tags):
            engine.images.remove(made.id, force=True)


def store_url(settings):
    return f"http://127.0.0.1:{settings['STORE_PORT']}"


def docker(*arguments):
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True)


def containers():
    ids = docker("ps", "--all", "--quiet", "--filter", f"label=com.docker.compose.project={NAME}").stdout.split()
    found = json.loads(docker("inspect", *ids).stdout)
    return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in found}


def logs(service):
    done = docker("logs", containers()[service]["Id"])
    return done.stdout + done.stderr


@pytest.fixture(scope="module", autouse=True)
def _engine_of_the_commands(settings):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", settings["DOCKER_HOST"])
        yield


def kept(settings):
    """What the stack holds: states of runs in Prefect and MLflow, objects of DVC's remote and MLflow's artifacts, images."""
    import mlflow

    client = mlflow.MlflowClient(f"http://127.0.0.1:{settings['MLFLOW_PORT']}")
    runs = [run for one in client.search_experiments() for run in client.search_runs([one.experiment_id])]
    states = prefect_api(settings["PREFECT_API_URL"], "flow_runs/filter", {"flows": {"name": {"any_": ["develop-to-deploy"]}}})
    lines = (Path(settings["STACK_SECRETS"]) / "store_credentials").read_text().splitlines()
    keys = dict(line.split(" = ") for line in lines if " = " in line)
    store = boto3.client("s3", endpoint_url=store_url(settings), region_name="us-east-1", **keys)
    objects = {f"{name} objects": store.list_objects_v2(Bucket=name)["KeyCount"] for name in ("dvc", "mlflow")}
    return {
        "mlflow": [(run.info.run_id, run.info.status) for run in runs],
        "prefect": [(one["id"], one["state_name"]) for one in states],
        **objects,
    }


def test_all_services_are_healthy_and_none_runs_as_root(settings, up):
    found = containers()
    assert found.keys() == SERVICES
    for one in found.values():
        assert one["State"]["Health"]["Status"] == "healthy"
        assert one["Config"]["User"] == "10001:10001"
    assert f"http://127.0.0.1:{settings['MLFLOW_PORT']}" in up


def test_no_secret_can_be_seen_from_outside(settings, ran):
    words = re.findall(r"[\w-]+", " ".join(path.read_text() for path in Path(settings["STACK_SECRETS"]).iterdir()))
    secrets = [word for word in words if len(word) == 48]
    assert len(secrets) == 4
    seen = json.dumps(containers())
    for name in SERVICES:
        seen += docker("top", containers()[name]["Id"]).stdout + logs(name)
    assert not [word for word in secrets if word in seen]
    assert Path(settings["STACK_SECRETS"]).stat().st_mode & 0o077 == 0


def test_a_run_on_the_worker_is_in_both_trackers_and_its_data_in_the_store(settings, ran):
    found = kept(settings)
    assert {status for _, status in found["mlflow"]} == {"FINISHED"}
    assert [name for _, name in found["prefect"]] == ["Completed"]
    assert found["dvc objects"] > 10
    assert found["mlflow objects"] > 0


def test_the_accepted_image_is_promoted_into_the_registry_of_the_stack(checkout, settings, ran, engine):
    done = subprocess.run([PROGRAM, "promote"], cwd=checkout, env=settings, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "version 1 of linear is champion; promote.target is null, so no server was started or changed\n"
    *_, last = (checkout / ".paddleship/ledger.jsonl").read_text().splitlines()
    shipped = json.loads(last)["shipped"]
    assert shipped["reference"].startswith(f"127.0.0.1:{settings['REGISTRY_PORT']}/paddleship/test-stack-")
    assert engine.images.get_registry_data(shipped["reference"]).id == shipped["reference"].rpartition("@")[2]


def test_a_restart_keeps_everything(settings, ran, engine):
    name = f"127.0.0.1:{settings['REGISTRY_PORT']}/base:kept"
    engine.images.get("python:3.11-slim").tag(name)
    pushed = engine.api.push(name, stream=True, decode=True)
    (digest,) = [event["aux"]["Digest"] for event in pushed if "Digest" in event.get("aux", {})]
    engine.images.remove(name)
    before = kept(settings)
    stack(settings, "down")
    stack(settings, "up")
    assert kept(settings) == before
    reference = f"127.0.0.1:{settings['REGISTRY_PORT']}/base@{digest}"
    assert engine.images.pull(reference).id == engine.images.get("python:3.11-slim").id
    engine.images.remove(reference)
