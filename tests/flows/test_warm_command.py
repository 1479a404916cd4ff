"""A command that a test forks is a process of its own, and ends as the installed program does."""

import os
import signal
import subprocess
import sys

import pytest

from tests.flows.helpers import DVC, PROGRAM, REPOSITORY

STAGE = [sys.executable, "-m", "tasks.train", "--params", "nowhere.yaml"]
COMMANDS = [[PROGRAM, "runs", "list"], [PROGRAM, "stop", "now"], [DVC, "version", "--nothing"], STAGE]


@pytest.fixture
def forked(warm_commands):
    if not warm_commands:
        pytest.skip("the long form forks no command")


@pytest.mark.parametrize("command", COMMANDS)
def test_it_says_and_returns_what_the_program_does(forked, tmp_path, monkeypatch, command):
    folder = REPOSITORY if command is STAGE else tmp_path  # tasks/ is not installed
    options = {"cwd": folder, "capture_output": True, "text": True, "check": False}
    warm = subprocess.run(command, **options)
    monkeypatch.delenv("PADDLESHIP_TESTS_WARM_COMMANDS")
    program = subprocess.run(command, **options)
    assert (warm.returncode, warm.stdout, warm.stderr) == (program.returncode, program.stdout, program.stderr)
    assert warm.returncode != 0


def test_it_has_a_session_folder_and_descriptors_of_its_own_and_is_ended_by_a_signal(forked, tmp_path):
    (tmp_path / "waiting.py").write_text("import os, sys, time\nprint(os.getsid(0), os.getcwd(), sys.argv, flush=True)\ntime.sleep(600)\n")
    ours, theirs = os.pipe()
    command = [sys.executable, "-m", "paddleship.execution.child_guard", str(ours), "waiting", "now"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=(ours,), text=True) as process:
        assert process.stdout.readline() == f"{process.pid} {tmp_path} ['{tmp_path}/waiting.py', 'now']\n"
        assert process.poll() is None
        os.close(theirs)  # the guard ends its process group when the one that started it has ended
        assert process.wait(300) == -signal.SIGKILL
        assert process.stdout.read() == ""
    os.close(ours)
