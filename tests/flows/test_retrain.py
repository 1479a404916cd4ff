"""The flow `retrain` in the toy checkout: what it runs, what it does not run again, and where its trigger is shown."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import yaml

from paddleship.errors import Unavailable
from paddleship.orchestration import pending_changes
from paddleship.servers.local_state import Local
from paddleship.tracking import runs
from tests.flows.helpers import DVC, REPOSITORY, git, prefect_api


@pytest.fixture
def retrain(toy, environment, prefect_url):
    """Run the flow in the toy several times in one process, each after a commit; the name and message of each last state."""

    def run(*steps):
        command = [sys.executable, "-m", "tests.flows.retrain_in_turn", json.dumps(steps)]
        variables = {**environment, "PYTHONPATH": str(REPOSITORY)}
        done = subprocess.run(command, cwd=toy, env=variables, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return [line.removeprefix("=> ") for line in done.stdout.splitlines() if line.startswith("=> ")]

    return run


def commit_lock(toy):
    """Run the stages, and commit their lock."""
    variables = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([DVC, "repro", "-q", "export"], cwd=toy, env=variables, check=True, capture_output=True)
    git(toy, "add", "-A")
    git(toy, "commit", "-qm", "lock")


def test_what_changed_runs_once_with_its_trigger_and_a_missed_gate_is_not_tried_again(toy, retrain, prefect_url):
    drift = {"trigger": f"drift of x[0] {uuid.uuid4()}"}
    missed, again = retrain(("miss the gate", drift), ("miss the gate", drift))
    assert missed.startswith("GateFailed: score is 3")
    assert again.startswith("NothingNew: nothing new: the same params, code, data and versions were run on ")
    assert again.endswith(": GateFailed)")
    uri = f"sqlite:///{toy}/.paddleship/mlflow.db"
    found = runs.find(uri)
    assert [run.tags["trigger"] for run in found] == [drift["trigger"]]
    named = prefect_api(prefect_url, "flow_runs/filter", {"flow_runs": {"tags": {"all_": ["retrain", drift["trigger"]]}}})
    assert [one["name"] for one in named] == [f"retrain: {drift['trigger']}"] * 2
    assert [run for one in named if (run := runs.of_flow_run(uri, one["id"]))] == found, "`paddleship ci` reports from it"


def look(toy, name="HEAD"):
    return pending_changes.detect(toy, "here", commit=name, overlay={}, until="export")


def test_nothing_differs_from_a_committed_lock_until_data_comes(toy):
    commit_lock(toy)
    found = look(toy)
    assert (found.changed, found.data) == ({}, ())
    assert look(toy).version == found.version
    (toy / "README.md").write_text("words\n")
    git(toy, "add", "README.md")
    git(toy, "commit", "-qm", "words")
    assert look(toy).version == found.version, "no stage reads it"
    (toy / "how/train").write_text("better\n")
    git(toy, "commit", "-qam", "code")
    assert look(toy).data == ()
    assert look(toy).version != found.version
    assert not (toy / ".paddleship/runs/look-here").exists()


@pytest.fixture
def imported(toy):
    """The toy, whose raw data is a DVC import of a file elsewhere, where it is replaced from time to time."""
    source = toy.parent / "elsewhere/rows"
    source.parent.mkdir()
    source.write_text("rows\n")
    (toy / "data/dvc.yaml").unlink()
    subprocess.run([DVC, "import-url", "-q", str(source.parent), "data/raw"], cwd=toy, check=True)
    values = yaml.safe_load((toy / "params.yaml").read_text())
    values["data"] |= {"raw": "data/raw", "fetch": {}}
    (toy / "params.yaml").write_text(yaml.safe_dump(values))
    git(toy, "add", "-A")
    git(toy, "commit", "-qm", "import")
    return source


def test_a_new_version_of_an_import_is_seen_fetched_and_part_of_the_commit_that_runs(toy, imported):
    commit_lock(toy)
    before = look(toy)
    assert (before.changed, before.commit) == ({}, git(toy, "rev-parse", "HEAD").strip())
    imported.write_text("more rows\n")
    found = look(toy)
    assert found.data == ("data/raw",)
    assert found.version != before.version
    assert found.commit != before.commit
    assert git(toy, "diff", "--name-only", "HEAD", found.commit).split() == ["data/raw.dvc"]
    assert look(toy).version == found.version
    assert git(toy, "status", "--porcelain", "--untracked-files=no") == ""


def test_a_changed_file_outside_of_the_repository_is_new_data_too(toy):
    outside = toy.parent / "outside/rows"
    outside.parent.mkdir()
    outside.write_text("rows\n")
    (toy / "data/dvc.yaml").unlink()
    for name in ("params.yaml", "dvc.yaml"):
        text = (
            (toy / name)
            .read_text()
            .replace("examples/linear/linear.csv", str(outside.parent))
            .replace("- data/raw\n", f"- {outside.parent}\n")
        )
        (toy / name).write_text(text)
    commit_lock(toy)
    before = look(toy)
    assert before.changed == {}
    outside.write_text("more rows\n")
    found = look(toy)
    assert found.data == (str(outside.parent),)
    assert found.version != before.version


def test_a_git_remote_that_does_not_answer_is_an_outage(toy):
    git(toy, "remote", "add", "origin", str(toy.parent / "nowhere"))
    with pytest.raises(Unavailable, match="make the git remote 'origin' available"):
        look(toy, "main")


def test_the_newest_commit_of_a_branch_is_fetched(toy, tmp_path):
    git(tmp_path, "clone", "-q", "toy", "other")
    git(toy, "remote", "add", "origin", str(tmp_path / "other"))
    (tmp_path / "other/how/train").write_text("better\n")
    git(tmp_path / "other", "commit", "-qam", "theirs")
    theirs = git(tmp_path / "other", "rev-parse", "HEAD").strip()
    assert look(toy, "main").commit == theirs
    assert pending_changes.before(Local.of(toy), "none") is None
