"""The services of infra/compose.yaml in use: a run on their worker, a restart that loses nothing, and no secret to be seen."""

import json
import os
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

from flows.servers import free_port
from tasks import image
from tests.flows.helpers import PROGRAM, REPOSITORY, git, prefect_api

NAME = f"paddleship-test-{os.getpid()}"
SERVICES = {"postgres", "store", "registry", "prefect", "mlflow", "worker"}

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.engine, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def settings(tmp_path_factory, linear_checkout_of, engine):
    """The variables of a user whose checkout is committed and whose stack has a name and ports of its own."""
    checkout = linear_checkout_of("stack", optimize={"candidates": ["paddle", "onnxruntime"]})
    git(checkout, "commit", "-qam", "the linear example")
    ports = {name: str(free_port()) for name in ("PREFECT_PORT", "MLFLOW_PORT", "STORE_PORT", "REGISTRY_PORT")}
    own = {
        "STACK_NAME": NAME,
        "STACK_GIT": str(checkout / ".git"),
        "STACK_SECRETS": str(tmp_path_factory.mktemp("secrets") / "own"),
        "DOCKER_HOST": image.host_of(engine),
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW", "PYTHONPATH"))}
    clients = {"PREFECT_API_URL": f"http://127.0.0.1:{ports['PREFECT_PORT']}/api", "PYTHON": sys.executable}
    return kept | ports | own | clients | {"CHECKOUT": str(checkout)}


def stack(settings, action):
    done = subprocess.run([REPOSITORY / "infra/stack.sh", action], env=settings, capture_output=True, text=True, check=False, timeout=1500)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def up(settings):
    try:
        yield stack(settings, "up")
    finally:
        stack(settings, "remove")


@pytest.fixture(scope="module")
def ran(settings, up):
    """The output of a run on the worker of the stack."""
    command = [PROGRAM, "run", "--deployment", "develop-to-deploy/local", "--until", "optimize"]
    done = subprocess.run(command, cwd=settings["CHECKOUT"], env=settings, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr + logs("worker")
    return done.stdout


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
    store = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{settings['STORE_PORT']}", region_name="us-east-1", **keys)
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


def test_no_secret_can_be_seen_from_outside(settings, up):
    words = " ".join(path.read_text() for path in Path(settings["STACK_SECRETS"]).iterdir()).split()
    secrets = [word for word in words if len(word) == 48]
    assert len(secrets) == 3
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
