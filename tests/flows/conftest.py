"""The toy checkout and the commands of users in it; accepted versions of a model, and a registry for their images."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from benchmarks.chaos import toy as toys
from tests.flows import promotion
from tests.flows.helpers import PROGRAM, answers, wait_for


@pytest.fixture(autouse=True)
def _forked(warm_commands):
    """Let the commands that tests and the flows in them start be forked, in the short form of the suite."""


@pytest.fixture
def toy(tmp_path, mlflow_db):
    """A committed checkout in a folder of its own, with an MLflow store, and with the remote of the repository's .dvc/config beside it."""
    made = toys.make(tmp_path / "toy")
    (made / ".paddleship").mkdir()
    shutil.copy(mlflow_db, made / ".paddleship" / "mlflow.db")
    return made


@pytest.fixture
def fetched(toy):
    """The toy with its raw data."""
    (toy / "data/raw").mkdir()
    (toy / "data/raw/rows").write_text("rows\n")
    return toy


@pytest.fixture
def let(toy):
    """Make a stage of the toy do something, as `STAGE` knows it: miss the gate, warn, hang, hang unless FILE exists, be killed …"""
    return lambda stage, how: (toy / "how" / stage).write_text(f"{how}\n")


@pytest.fixture
def environment(tmp_path, prefect_url):
    """Of a user whose own Prefect server is `prefect_url`, and who has nothing else set."""
    ours = ("PREFECT", "MLFLOW", "DOCKER_HOST", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "PREFECT_API_URL": prefect_url, "PREFECT_HOME": str(tmp_path / "prefect"), "COLUMNS": "200"}


@pytest.fixture
def pipeline(toy, environment):
    """Run the pipeline in the toy, as `make pipeline` does."""

    def run(*arguments, checkout=toy, **more):
        command = [PROGRAM, "run", "--until", "export", *arguments]
        return subprocess.run(command, cwd=checkout, env={**environment, **more}, capture_output=True, text=True, check=False)

    return run


@pytest.fixture(scope="module")
def versions(linear_benchmarked, tmp_path_factory, stage, engine, mlflow_db, prefect_url):
    """Two accepted versions of the linear model, each in the checkout that made it; a worker changes their params, so each has its own.

    Both serve gRPC too, and version 2 has two server processes.
    """
    root = tmp_path_factory.mktemp("promote")
    environment = {"PREFECT_API_URL": prefect_url, "PREFECT_HOME": str(tmp_path_factory.mktemp("prefect-home")), "COLUMNS": "200"}
    team = promotion.Team(tmp_path_factory.mktemp("team"), environment=environment)
    shutil.copy(mlflow_db, team.state / "mlflow.db")
    for version, changes in {"1": {}, "2": {"seed": 8, "optimize": {"candidates": ["onnxruntime"]}}}.items():
        subprocess.run(["cp", "-r", str(linear_benchmarked), str(root / version)], check=True)
        stages = promotion.STAGES[1:] if changes else promotion.STAGES[-2:]
        package = {"repository": promotion.REPOSITORY_OF_IMAGES, "transports": ["http", "grpc"], "processes": int(version)}
        promotion.make(root / version, stage, stages, package=package, **changes)
        team.register(version, root / version)
    yield team
    tags = [tag for found in engine.images.list() for tag in found.tags if promotion.REPOSITORY_OF_IMAGES in tag]
    for tag in tags:  # not by id, which another worker's image may have too
        engine.images.remove(tag, force=True)


@pytest.fixture(scope="session")
def image_registry(tmp_path_factory, free_port):
    """The address of a real registry on loopback: Debian's docker-registry, unpacked here where it is not installed."""
    folder, address = tmp_path_factory.mktemp("registry"), f"127.0.0.1:{free_port()}"
    program = shutil.which("docker-registry") or str(folder / "usr/bin/docker-registry")
    if not Path(program).exists():
        fetch = "apt-get download -qq -o APT::Sandbox::User=root docker-registry && dpkg-deb -x docker-registry_*.deb ."
        done = subprocess.run(["bash", "-c", fetch], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"needs a registry: `apt-get install docker-registry` ({done.stderr.strip()[-200:]})")
    settings = {"version": 0.1, "storage": {"filesystem": {"rootdirectory": str(folder / "images")}}, "http": {"addr": address}}
    (folder / "config.yml").write_text(yaml.safe_dump(settings))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([program, "serve", str(folder / "config.yml")], stdout=log, stderr=log)
    wait_for(lambda: answers(f"http://{address}/v2/"))
    yield address
    process.terminate()
    process.wait(300)
