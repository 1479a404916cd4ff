"""`paddleship run` where nothing changed: said before any server is asked, and only where it is so."""

import json
from uuid import uuid4

import psutil
import pytest

from paddleship.execution import stages
from paddleship.orchestration import up_to_date
from paddleship.servers.local_state import Local
from paddleship.system import locks
from tests.flows.helpers import how_it_went, mlflow_runs
from tests.flows.test_pipeline import ALL

NO_SERVER = {"PREFECT_API_URL": "http://127.0.0.1:1/api"}


@pytest.fixture
def asked(toy, monkeypatch):
    """Whether a run up to a stage has nothing to do."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return lambda until="export", register=True: up_to_date.show(toy, Local.of(toy), until, register=register)


def test_a_run_with_nothing_to_do_needs_no_server_and_prints_the_reports_of_the_last(toy, pipeline):
    assert pipeline().returncode == 0
    done = pipeline(**NO_SERVER)
    assert done.returncode == 0, done.stderr
    assert how_it_went(done) == dict.fromkeys(ALL, "unchanged")
    assert "score 1" in done.stdout
    assert "Nothing changed since the last run" in done.stdout
    assert mlflow_runs(toy) == [("FINISHED", None)]
    assert pipeline(**NO_SERVER, MLFLOW_TRACKING_URI="http://127.0.0.1:1").returncode == 4, "another MLflow has nothing of it"


def test_a_run_with_nothing_to_do_leaves_no_server_of_its_own(toy, pipeline, environment):
    assert pipeline().returncode == 0
    del environment["PREFECT_API_URL"], environment["PREFECT_HOME"]
    assert "Nothing changed since the last run" in pipeline().stdout
    left = [process.info for process in psutil.process_iter(["cwd", "cmdline"]) if process.info["cwd"] == str(toy)]
    assert not left


def test_only_what_the_last_run_did_and_left_counts_as_unchanged(toy, let, pipeline, asked):
    assert not asked(), "there was no run"
    assert pipeline("--until", "train").returncode == 0
    assert asked("train")
    assert asked("prepare")
    assert not asked("export"), "the last run did not come that far"
    let("prepare", "otherwise")
    assert not asked("train")
    let("prepare", "well")
    (toy / "train.txt").unlink()
    assert not asked("train")
    assert asked("prepare")
    (toy / "dvc.lock").write_text((toy / "dvc.lock").read_text() + "# edited\n")
    assert not asked("prepare"), "a run that ended early may have left this"
    (toy / ".paddleship/last_run.json").write_text("{}")
    assert not asked("prepare"), "another version wrote this"


def test_a_run_that_registered_nothing_is_no_end_for_one_that_should(pipeline, asked):
    assert pipeline("--no-register").returncode == 0
    assert asked(register=False)
    assert not asked()
    assert pipeline().returncode == 0
    assert asked()


def test_the_copy_of_dvc_lock_that_a_killed_run_left_goes_although_nothing_changed(toy, pipeline, asked):
    assert pipeline("--until", "prepare").returncode == 0
    left = toy / stages._BEFORE
    left.write_text(json.dumps({"path": "dvc.lock", "text": None}))
    with locks.wait_for(toy / stages._TURN):
        assert asked("prepare")
        assert left.exists(), "a living run needs it"
    assert asked("prepare")
    assert not left.exists()


def test_what_a_run_left_that_was_killed_at_its_very_end_is_cleared_by_the_next(toy, pipeline, asked):
    assert pipeline("--until", "prepare").returncode == 0
    lock = toy / ".paddleship/flows" / f"{uuid4()}.lock"
    lock.touch()
    assert not asked("prepare")
    assert pipeline("--until", "prepare").returncode == 0
    assert not lock.exists()
    assert asked("prepare")
