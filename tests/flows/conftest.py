"""The toy checkout, a Prefect server for all tests, and the commands of users in them."""

import os
import shutil
import subprocess
from dataclasses import replace

import filelock
import pytest

from benchmarks.chaos import toy as toys
from flows import servers
from flows.local import Local
from tests.flows.helpers import PROGRAM


@pytest.fixture(autouse=True)
def _forked(warm_commands):
    """Let the commands that tests and the flows in them start be forked, in the short form of the suite."""


@pytest.fixture
def toy(tmp_path):
    """A committed checkout in a folder of its own, with the remote of the repository's .dvc/config beside it."""
    return toys.make(tmp_path / "toy")


@pytest.fixture
def let(toy):
    """Make a stage of the toy do something, as `STAGE` knows it: miss the gate, warn, hang, hang unless FILE exists, be killed …"""
    return lambda stage, how: (toy / "how" / stage).write_text(f"{how}\n")


@pytest.fixture(scope="session")
def free_port():
    return servers.free_port


@pytest.fixture(scope="session")
def prefect_folder(shared_folder, tmp_path_factory, warm_commands):
    """Where the Prefect server keeps its database and its log."""
    return (shared_folder if warm_commands else tmp_path_factory.mktemp("servers")) / "prefect"


@pytest.fixture(scope="session")
def prefect_url(prefect_folder, free_port, with_tables, warm_commands):
    """A real Prefect server, in the short form for all workers; an ephemeral one per run would cost seconds each."""
    local = replace(Local(prefect_folder), prefect_port=free_port())
    with filelock.FileLock(f"{prefect_folder}.lock"):
        if not prefect_folder.exists():
            with_tables(prefect_folder)
        url = local._prefect().start()
    yield f"{url}/api"
    if not warm_commands:
        local.stop()


@pytest.fixture
def environment(tmp_path, prefect_url):
    """Of a user whose own Prefect server is `prefect_url`, and who has nothing else set."""
    ours = ("PREFECT", "MLFLOW", "DOCKER_HOST", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "PREFECT_API_URL": prefect_url, "PREFECT_HOME": str(tmp_path / "prefect"), "COLUMNS": "200"}


@pytest.fixture
def pipeline(toy, environment, mlflow_db):
    """Run the pipeline in the toy, as `make pipeline` does."""
    (toy / ".paddleship").mkdir()
    shutil.copy(mlflow_db, toy / ".paddleship" / "mlflow.db")

    def run(*arguments, checkout=toy, **more):
        command = [PROGRAM, "run", "--until", "export", *arguments]
        return subprocess.run(command, cwd=checkout, env={**environment, **more}, capture_output=True, text=True, check=False)

    return run
