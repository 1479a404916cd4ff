import multiprocessing
import os
import subprocess
import sys
import time

import psutil
import pytest

from paddleship.benchmark import system_metrics
from paddleship.benchmark.worker_process import WorkerProcess
from paddleship.system.isolate import Isolated

TWENTY_MB = 20_000_000
ORPHAN = """
import os, sys, time
from paddleship.system.isolate import Isolated
from paddleship.benchmark.worker_process import WorkerProcess
from tests.paddleship.benchmark.test_system_metrics import Obedient
if __name__ == "__main__":
    worker = WorkerProcess(Isolated("x", Obedient, timeout_s=30))
    worker.answer([])
    print(worker._child.pid, flush=True)
    os.kill(os.getpid(), 9)
"""


class Obedient:
    def answer(self, questions):
        return [os.getpid()]


class Greedy:
    def answer(self, questions):
        """Holds memory for a moment in a process of its own."""
        held = f"held = bytearray({TWENTY_MB}); held[::4096] = b'x' * len(held[::4096]); import time; time.sleep(0.5)"
        subprocess.run([sys.executable, "-c", held], check=True)
        return []


class Fertile:
    def answer(self, questions):
        """Starts a process that would go on by itself."""
        started = os.fork()
        if started == 0:
            time.sleep(20)
            os._exit(0)
        return [started]


def stopped(pid):
    end = time.monotonic() + 300
    while psutil.Process(pid).status() != psutil.STATUS_STOPPED and time.monotonic() < end:
        time.sleep(0.01)
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


def test_what_a_process_started_has_no_processor_time_either():
    with Isolated("fertile", Fertile, timeout_s=20) as child:
        (started,) = WorkerProcess(child).answer([])
        assert stopped(started)


def test_memory_counts_what_children_of_the_process_hold():
    with Isolated("greedy", Greedy, timeout_s=20) as child:
        worker = WorkerProcess(child)
        worker.answer([])
        assert worker.peak_bytes > worker.resident_bytes + TWENTY_MB
        assert worker.resident_bytes > 1e6


def test_a_process_has_no_processor_time_while_it_is_not_asked():
    with Isolated("x", Obedient, timeout_s=20) as child:
        worker = WorkerProcess(child)
        (pid,) = worker.answer([])
        assert stopped(pid)
        assert worker.answer([]) == [pid]


@pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")
def test_a_stopped_process_does_not_outlive_its_parent(tmp_path):
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False)
    pid = int(done.stdout)
    end = time.monotonic() + 300
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE and time.monotonic() < end:
        time.sleep(0.02)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the platform cannot pin")
def test_a_participant_gets_as_many_cores_as_it_has_threads_and_never_more_than_there_are():
    assert len(system_metrics.cores_for(1)) == 1
    assert set(system_metrics.cores_for(1000)) == os.sched_getaffinity(0)


def _burn(seconds):
    while time.process_time() < seconds:
        pass


def test_work_of_our_own_children_is_not_that_of_others():
    before, monitor = system_metrics.own_seconds(), system_metrics.LoadMonitor()
    child = multiprocessing.get_context("spawn").Process(target=_burn, args=(0.3,))
    child.start()
    child.join()
    assert system_metrics.own_seconds() - before >= 0.25
    assert 0 <= monitor.seen().busy_share <= 1  # of more than the kernel's tick of 10 ms


def test_the_size_of_a_folder_is_that_of_its_files(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/a").write_bytes(b"12345")
    (tmp_path / "b").write_bytes(b"1")
    assert system_metrics.size_bytes(tmp_path) == 6
    assert system_metrics.size_bytes(tmp_path / "b") == 1
