"""One process at a time, and what a killed one held."""

import subprocess
import sys

import pytest

from paddleship.errors import Unavailable
from paddleship.system import locks

MEASURING = """
import time
from paddleship.system import locks
with locks.turn_on_machine("benchmark"):
    print("held", flush=True)
    time.sleep(600)
"""

HOLDER = """
import sys, time
from pathlib import Path
from paddleship.system import locks
held = locks.wait_for(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_what_one_process_may_do_at_a_time_is_refused_to_the_second_until_the_first_ends(tmp_path):
    lock = tmp_path / "reports" / ".train.lock"
    again = locks.only_one(lock, what="train")
    with locks.only_one(lock, what="train"), pytest.raises(Unavailable, match=r"train is running in .* already"), again:
        pass
    with locks.only_one(lock, what="train"):
        pass


def test_the_lock_of_a_process_that_was_killed_is_free(tmp_path):
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        assert locks.take(path) is None
        holder.kill()
    lock = locks.take(path)
    assert lock is not None
    lock.lock.release()


def test_one_benchmark_at_a_time_on_a_machine_and_who_waits_says_for_whom(tmp_path, monkeypatch):
    monkeypatch.setenv(locks.FOLDER, str(tmp_path / "machine"))
    lines = []
    with subprocess.Popen([sys.executable, "-c", MEASURING], stdout=subprocess.PIPE, text=True, cwd=tmp_path) as holder:
        assert holder.stdout.readline() == "held\n"

        def say(line):
            lines.append(line)
            if len(lines) == 2:
                holder.kill()

        with locks.turn_on_machine("benchmark", say=say, every_s=0.1):
            pass
    assert len(lines) >= 2
    assert f"waiting to benchmark: one at a time on this machine, now process {holder.pid} in {tmp_path} (" in lines[0]
    with locks.turn_on_machine("benchmark", say=lines.append):
        assert len(lines) < 5, "nobody was there to wait for"


def test_the_locks_of_the_machine_are_open_to_all_its_users(tmp_path, monkeypatch):
    monkeypatch.setenv(locks.FOLDER, str(tmp_path / "machine"))
    with locks.turn_on_machine("benchmark"):
        assert (tmp_path / "machine").stat().st_mode & 0o777 == 0o777
        assert (tmp_path / "machine" / "benchmark.lock").stat().st_mode & 0o666 == 0o666


def test_a_folder_of_all_users_that_is_a_link_is_refused_and_nothing_behind_it_changes(tmp_path, monkeypatch):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    (tmp_path / "shared").symlink_to(private)
    monkeypatch.setenv(locks.FOLDER, str(tmp_path / "shared"))
    with pytest.raises(Unavailable, match="is a symbolic link, which another user may have made"):
        locks.of_machine("benchmark")
    assert private.stat().st_mode & 0o777 == 0o700
