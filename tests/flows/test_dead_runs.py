"""What Prefect shows of a command that was killed, after the next command."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.helpers import PROGRAM, hanging, prefect_api, started_by_commands


@pytest.fixture
def killed(toy, environment, prefect_url):
    """Kill a command of the toy while its flow run has this state. Returns the id of that flow run."""

    def kill(state):
        command = [sys.executable, "-m", "tests.flows.killed_at_once", state]
        done = subprocess.run(command, cwd=toy, env={**environment, "PYTHONPATH": str(Path.cwd())}, check=False)
        assert done.returncode == -signal.SIGKILL
        (run,) = started_by_commands(toy, prefect_url)
        assert run["state_type"] == state.upper()
        return run["id"]

    return kill


@pytest.mark.parametrize("state", ["pending", "running"])
def test_a_command_that_was_killed_before_its_flow_did_anything_is_shown_as_crashed_by_the_next(toy, pipeline, killed, prefect_url, state):
    dead = killed(state)
    done = pipeline("--until", "prepare")
    assert done.returncode == 0, done.stderr
    assert f"flow run {dead} was killed earlier: Prefect shows it as Crashed" in done.stderr
    assert prefect_api(prefect_url, f"flow_runs/{dead}")["state_type"] == "CRASHED"
    assert not list((toy / ".paddleship/flows").iterdir())


def test_a_living_command_is_left_alone_and_shown_as_crashed_once_it_was_killed(toy, let, environment, prefect_url):
    let("prepare", "hang")

    def ask():
        return subprocess.run([PROGRAM, "ledger"], cwd=toy, env=environment, capture_output=True, text=True, check=True).stderr

    with subprocess.Popen([PROGRAM, "run", "--until", "prepare"], cwd=toy, env=environment, stderr=subprocess.DEVNULL) as process:
        hanging(toy)
        assert "killed earlier" not in ask()
        process.kill()
    said = ask()
    (dead,) = re.findall(r"flow run (\S+) was killed earlier", said)
    assert prefect_api(prefect_url, f"flow_runs/{dead}")["state_type"] == "CRASHED"
    assert "killed earlier" not in ask()
