"""DVC's commands are forks of one process, and end as programs do: with their exit codes, and with the process that asked for them."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from paddleship.errors import Unavailable
from paddleship.execution import dvc_process
from paddleship.execution.dvc_process import command
from tests.flows.helpers import hanging, is_alive, wait_for

ASK = """
import os, sys
from pathlib import Path
from paddleship.execution.dvc_process import command

with command(Path.cwd(), "repro", "--single-item", "prepare", environment=os.environ) as running:
    running.wait()
"""


def environment(**more):
    """Variables with which stages find this Python."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", **more}


def dvc(folder, *arguments, **more):
    with command(folder, *arguments, environment=environment(**more)) as running:
        return running.stdout.read(), running.wait()


def importer():
    """The process that imports DVC for this one."""
    return psutil.Process(dvc_process._importer.process.pid)


def test_each_has_its_own_output_and_exit_code_and_dvc_is_imported_once(toy):
    listed, code = dvc(toy, "stage", "list", "--name-only")
    assert ("prepare" in listed.split(), code) == (True, 0)
    first = importer().pid
    words, code = dvc(toy, "repro", "nothing")
    assert "nothing" in words
    assert code == 255
    assert importer().pid == first


def test_an_environment_of_any_size_gets_there_and_is_that_of_this_command_only(toy):
    told = "import os; print(len(os.environ.get('WIDE', '')))"
    wide = dict.fromkeys(("WIDE", "WIDER", "WIDEST"), "x" * 100_000)  # more than a message of a socket can hold
    dvc(toy, "stage", "add", "--run", "--name", "tell", f'{sys.executable} -c "{told}" > told.txt', **wide)
    assert (toy / "told.txt").read_text() == "100000\n"
    dvc(toy, "repro", "--force", "tell")
    assert (toy / "told.txt").read_text() == "0\n"


def test_what_a_block_leaves_is_killed_with_it_and_the_next_command_gets_its_own_answer(fetched, let):
    let("prepare", "hang")
    with suppress(KeyboardInterrupt), command(fetched, "repro", "--single-item", "prepare", environment=environment()) as running:
        stage = hanging(fetched)
        raise KeyboardInterrupt
    assert running.poll() == -signal.SIGKILL
    wait_for(lambda: not any(is_alive(pid) for pid in stage))
    assert dvc(fetched, "root") == (".\n", 0)


def test_if_the_process_that_imports_dvc_is_killed_its_command_was_killed_and_the_next_one_has_a_new_one(fetched, let):
    let("prepare", "hang")
    with command(fetched, "repro", "--single-item", "prepare", environment=environment()) as running:
        stage = hanging(fetched)
        importer().kill()
        assert running.wait() == -signal.SIGKILL
    wait_for(lambda: not any(is_alive(pid) for pid in stage))
    assert dvc(fetched, "root") == (".\n", 0)


def test_a_process_that_cannot_import_dvc_is_one_error(toy, monkeypatch):
    (toy / "broken").mkdir()
    (toy / "broken" / "sitecustomize.py").write_text("import os; os._exit(9)")
    monkeypatch.setenv("PYTHONPATH", str(toy / "broken"))
    with pytest.raises(Unavailable, match="the process that imports DVC ended"):
        dvc(toy, "root")


@pytest.mark.spawned
def test_it_ends_with_the_process_that_asked_however_that_ends(fetched, let):
    let("prepare", "hang")
    command = [sys.executable, "-c", ASK]
    with subprocess.Popen(command, cwd=fetched, env=environment(), stdout=subprocess.DEVNULL) as asking:
        try:
            hanging(fetched)
            below = psutil.Process(asking.pid).children(recursive=True)
            assert any(dvc_process.is_of(process.cmdline(), fetched) for process in below)
        finally:
            asking.kill()
    wait_for(lambda: not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in below))


def test_a_folder_that_was_made_anew_is_the_new_one(toy):
    dvc(toy, "root")
    shutil.copytree(toy, toy.with_name("kept"))
    shutil.rmtree(toy)
    shutil.copytree(toy.with_name("kept"), toy)
    assert dvc(toy, "root") == (".\n", 0)


@pytest.mark.spawned
def test_the_code_that_runs_it_is_ours_whatever_the_folder_holds(toy):
    """It may be a worktree of a commit with another version of it."""
    (toy / "paddleship").mkdir()
    (toy / "paddleship" / "__init__.py").write_text("raise SystemExit(9)\n")
    assert dvc(toy, "root") == (".\n", 0)
