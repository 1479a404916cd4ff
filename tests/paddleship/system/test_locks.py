"""One process at a time, and what a killed one held."""

import subprocess
import sys

import pytest

from paddleship.errors import Unavailable
from paddleship.system import locks

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
