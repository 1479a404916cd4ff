"""A test that hangs fails, and the others run."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import hanging

CONFTEST = """
from tests import hanging
from tests.hanging import pytest_runtest_protocol
hanging.CHILDREN_AFTER_S, hanging.EXIT_AFTER_S = 1, 6
"""
CHILD = "import time; time.sleep(600)"
HANGS = {
    "a thread that waits for a child process": f"""
import subprocess, sys
from concurrent.futures import ThreadPoolExecutor
def test_hangs():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(subprocess.run, [sys.executable, "-c", {CHILD!r}]).result()
""",
    "a fixture that is torn down after a failure": """
import threading, pytest
@pytest.fixture
def stuck():
    yield
    threading.Event().wait()
def test_hangs(stuck):
    assert False
""",
}


@pytest.mark.spawned
@pytest.mark.parametrize("how", HANGS)
def test_a_test_that_hangs_fails_and_the_others_run(tmp_path, how):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 2\n")
    (tmp_path / "test_it.py").write_text(HANGS[how] + "\ndef test_passes():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-n", "1", "-q", "-p", "no:cacheprovider", "test_it.py"]
    environment = {"PYTHONPATH": str(Path(__file__).parents[1]), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "FAILED test_it.py::test_hangs" in done.stdout
    assert ", 1 passed in " in done.stdout, done.stdout + done.stderr


def test_a_command_that_is_forked_is_ended_with_the_test_that_started_it(warm_commands, tmp_path):
    """It is no child of the process that runs the test."""
    (tmp_path / "waiting.py").write_text("import time\nprint('begun', flush=True)\ntime.sleep(600)\n")
    others = set(hanging._children())
    ours, theirs = os.pipe()
    command = [sys.executable, "-m", "paddleship.execution.child_guard", str(ours), "waiting"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, pass_fds=(ours,), text=True) as process:
        assert process.stdout.readline() == "begun\n"
        hanging._end_children(others)
        assert process.wait(300) == -signal.SIGKILL
    os.close(ours)
    os.close(theirs)
