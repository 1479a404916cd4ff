"""The toy checkout and the commands of users in it."""

import os
import shutil
import subprocess

import pytest

from benchmarks.chaos import toy as toys
from tests.flows.helpers import PROGRAM


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
