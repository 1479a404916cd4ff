"""Who a process is, for others that share a machine, an engine or a folder with it."""

import os
import subprocess
import sys

import psutil
import pytest

from paddleship.system import processes

SLEEP = "import time; time.sleep(600)"
ASK = "import sys; from paddleship.system import processes; print(processes.is_alive(sys.argv[1]))"


def test_a_process_lives_until_it_is_killed():
    assert processes.is_alive(processes.identity()) is True
    with subprocess.Popen([sys.executable, "-c", SLEEP]) as child:
        identity = processes.identity(child.pid)
        assert processes.is_alive(identity) is True
        child.kill()
    assert processes.is_alive(identity) is False


@pytest.mark.skipif(sys.platform != "linux", reason="start times follow the clock elsewhere")
def test_a_living_process_is_not_taken_for_dead_when_the_clock_was_set(monkeypatch):
    identity, boot = processes.identity(), psutil.boot_time()
    monkeypatch.setattr("psutil._pslinux.boot_time", lambda: boot + 3600)
    assert processes.is_alive(identity) is True


def test_another_process_that_was_given_the_same_id_is_not_taken_for_it():
    realm, pid, started = processes.identity().rsplit("/", 2)
    assert processes.is_alive(f"{realm}/{pid}/{float(started) - 60:.2f}") is False


def test_a_process_of_another_boot_cannot_be_seen():
    realm, pid, started = processes.identity().rsplit("/", 2)
    assert processes.is_alive(f"another{realm}/{pid}/{started}") is None


@pytest.mark.skipif(sys.platform != "linux", reason="pid namespaces are Linux's")
def test_a_living_process_is_not_taken_for_dead_from_another_pid_namespace():
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", ASK, processes.identity()]
    done = subprocess.run(command, env=os.environ, capture_output=True, text=True, check=False)
    if done.returncode and "unshare" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.stdout == "None\n", done.stderr
