"""infra/kubernetes, without a cluster: the jobs that Prefect's worker makes of the template, the manifests, and a leg."""

import asyncio
import copy
import json
import re
import subprocess
import sys
import uuid
from pathlib import Path

import kubernetes_validate
import pytest
import yaml
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import FlowRun
from prefect_kubernetes.worker import KubernetesWorkerJobConfiguration

from tests.flows.helpers import PREFECT, PROGRAM, REPOSITORY, git, how_it_went, prefect_api, register_pool

FOLDER = REPOSITORY / "infra/kubernetes"
GPU = {
    "gpus": 2,
    "cpu_limit": "8",
    "memory_limit": "32Gi",
    "node_selector": {"nvidia.com/gpu.product": "NVIDIA-L4"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "runtime_class_name": "nvidia",
    "timeout_seconds": 7200,
    "image_pull_secrets": [{"name": "registry"}],
    "labels": {"team": "vision"},
    "annotations": {"example.com/owner": "vision"},
    "env": {"MORE": "1"},
}


@pytest.fixture(scope="module")
def template():
    return json.loads((FOLDER / "job_template.json").read_text())


@pytest.fixture
def job_of(template):
    """The job that Prefect's worker makes of job variables."""

    def make(**values):
        client = PrefectClient("http://prefect.invalid/api")  # the values refer to no block, so it is not asked
        made = KubernetesWorkerJobConfiguration.from_template_and_values(template, {"image": "a/b:1", **values}, client=client)
        configuration = asyncio.run(made)
        run = FlowRun(id=uuid.uuid4(), flow_id=uuid.uuid4(), name="m-1: train, export")
        configuration.prepare_for_flow_run(run)
        return configuration.job_manifest

    return make


def pod_of(job):
    return job["spec"]["template"]["spec"]


def require_valid(item):
    """Raise ValidationError if Kubernetes would not know a field, or not take its value."""
    item = copy.deepcopy(item)
    if item["kind"] == "Job":  # Prefect wants these two in the pod, where Kubernetes ignores them; their defaults in the job are the same
        assert [pod_of(item).pop(name) for name in ("parallelism", "completions")] == [1, 1]
    kubernetes_validate.validate(item, "1.31", strict=True)


def manifests():
    return list(yaml.safe_load_all((FOLDER / "worker.yaml").read_text()))


@pytest.mark.parametrize("values", [{}, GPU], ids=["cpu", "gpu"])
def test_the_job_of_a_leg_is_valid_and_has_no_rights_that_it_does_not_need(job_of, values):
    job = job_of(**values)
    require_valid(job)
    assert "{{" not in json.dumps(job)
    assert job["spec"]["backoffLimit"] == 0, "the run repeats a lost leg"
    assert job["spec"]["ttlSecondsAfterFinished"] > 0
    pod, (container,) = pod_of(job), pod_of(job)["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_leg_without_gpus_asks_for_none_and_one_with_them_gets_all_it_names(job_of):
    plain = pod_of(job_of())
    assert plain["containers"][0]["resources"]["limits"] == {"memory": "8Gi"}
    assert "runtimeClassName" not in plain
    job = job_of(**GPU)
    assert pod_of(job)["containers"][0]["resources"]["limits"] == {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": 2}
    assert pod_of(job)["tolerations"] == GPU["tolerations"]
    assert pod_of(job)["nodeSelector"] == GPU["node_selector"]
    assert pod_of(job)["runtimeClassName"] == "nvidia"
    assert job["spec"]["activeDeadlineSeconds"] == GPU["timeout_seconds"]
    assert job["metadata"]["labels"]["team"] == "vision"


def test_variables_of_a_deployment_are_added_to_those_of_the_pool(job_of):
    env = {one["name"]: one["value"] for one in pod_of(job_of(env={"MORE": "1"}))["containers"][0]["env"]}
    assert env["MORE"] == "1"
    assert env["PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR"] == "crash", "an evicted leg is lost, and the run repeats it"
    assert env["GIT_CONFIG_GLOBAL"] == "/etc/paddleship/git/gitconfig"
    assert env["PREFECT_FLOWS_HEARTBEAT_FREQUENCY"] == "30"
    mounts = [one["mountPath"] for one in pod_of(job_of())["containers"][0]["volumeMounts"] if not one.get("readOnly")]
    for variable in ("HOME", "DVC_SITE_CACHE_DIR"):  # the rest of the root is read-only
        assert any(Path(env[variable]).is_relative_to(mount) for mount in mounts), variable


@pytest.mark.parametrize(
    "break_it",
    [
        lambda pod: pod["containers"][0].update(resource={}),
        lambda pod: pod["containers"][0]["resources"]["limits"].update(memory=["8Gi"]),
        lambda pod: pod["securityContext"].update(runAsNonRoot="yes"),
        lambda pod: pod.pop("containers"),
    ],
    ids=["unknown field", "wrong type of a quantity", "text for a switch", "no container"],
)
def test_a_broken_job_is_refused(job_of, break_it):
    job = job_of()
    break_it(pod_of(job))
    with pytest.raises(kubernetes_validate.ValidationError):
        require_valid(job)


def test_every_variable_of_the_template_is_used_and_says_what_it_is(template):
    used = json.dumps(template["job_configuration"])
    for name, variable in template["variables"]["properties"].items():
        assert f"{{{{ {name} }}}}" in used, name
        assert variable["type"], name
        assert len(variable["description"]) > 10, name


def test_the_manifests_of_the_worker_are_valid_and_fit_the_jobs(job_of, template):
    found = manifests()
    for item in found:
        require_valid(item)
    assert {item["metadata"]["namespace"] for item in found} == {job_of()["metadata"]["namespace"]}
    accounts = {item["metadata"]["name"] for item in found if item["kind"] == "ServiceAccount"}
    assert pod_of(job_of())["serviceAccountName"] in accounts
    (deployment,) = [item for item in found if item["kind"] == "Deployment"]
    pod = pod_of(deployment)
    assert pod["serviceAccountName"] in accounts
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["containers"][0]["securityContext"] == pod_of(job_of())["containers"][0]["securityContext"]


def test_the_worker_may_do_nothing_beyond_jobs_and_pods_of_its_namespace():
    kinds = {item["kind"] for item in manifests()}
    assert kinds == {"ServiceAccount", "Role", "RoleBinding", "Deployment"}, "and nothing for the whole cluster"
    (role,) = [item for item in manifests() if item["kind"] == "Role"]
    allowed = {resource: rule["verbs"] for rule in role["rules"] for resource in rule["resources"]}
    assert allowed == {
        "jobs": ["create", "delete", "get", "list", "watch"],
        "pods": ["get", "list", "watch"],
        "pods/log": ["get"],
    }


@pytest.mark.slow
@pytest.mark.long
def test_a_leg_runs_in_a_pod_with_a_clone_of_its_own(toy, pipeline, environment, prefect_url, tmp_path):
    config = toy / ".dvc/config"
    config.write_text(re.sub(r"url = .*", f"url = {toy.parent / 'paddleship-remote'}", config.read_text()))  # a pod is in another folder
    git(toy, "commit", "-qam", "the remote where every machine finds it")
    git(toy.parent, "clone", "--quiet", "--bare", str(toy), "origin.git")
    origin = f"file://{toy.parent / 'origin.git'}"
    git(toy, "remote", "add", "origin", origin)
    branch = git(toy, "symbolic-ref", "--short", "HEAD").strip()
    done = register_pool(environment, "kubernetes", "k8s", "a/b:1", json.dumps({"gpu": 1}), GIT_URL=origin, BRANCH=branch)
    assert done.returncode == 1, "a variable that does not exist"
    assert "'gpu' was unexpected" in done.stdout + done.stderr
    subprocess.run([PREFECT, "work-pool", "set-concurrency-limit", "k8s", "3"], env=environment, check=True)
    done = register_pool(environment, "kubernetes", "k8s", "a/b:1", json.dumps({"gpus": 1}), GIT_URL=origin, BRANCH=branch)
    assert done.returncode == 0, done.stdout + done.stderr
    deployment = prefect_api(prefect_url, "deployments/name/run-stages/k8s")
    assert deployment["tags"] == ["stages", "kubernetes"]
    assert prefect_api(prefect_url, "work_pools/k8s")["concurrency_limit"] == 3
    refused = subprocess.run([PROGRAM, "worker", "--pool", "k8s"], cwd=toy, env=environment, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: the work pool 'k8s' is of the type kubernetes")
    pods = tmp_path / "pods"
    pods.mkdir()
    with (pods / "worker.log").open("w") as log:
        command = [sys.executable, str(REPOSITORY / "tests/flows/pods.py"), "k8s", str(pods)]
        ours = environment | {"PREFECT_WORKER_QUERY_SECONDS": "1", "PYTHONPATH": str(REPOSITORY)}
        worker = subprocess.Popen(command, env=ours, stdout=log, stderr=log)
        try:
            done = pipeline("--on", "train=k8s")
        finally:
            worker.terminate()
            worker.wait(300)
    assert done.returncode == 0, done.stdout + done.stderr + (pods / "worker.log").read_text()
    assert how_it_went(done) == {"fetch": "ran", "prepare": "ran", "train": "ran", "export": "ran"}
    job = json.loads((pods / "job.json").read_text())
    require_valid(job)
    assert pod_of(job)["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
