"""A deadline ends the child processes of its block, in other threads too, and no others."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from paddleship.errors import BadInput, OutOfTime, ProcessHung
from paddleship.system import deadline, isolate
from paddleship.system.deadline import Deadline, with_deadline


def sleep(seconds):
    time.sleep(seconds)
    return seconds


def test_a_child_is_stopped_when_the_deadline_is_over():
    began = time.monotonic()
    with Deadline(1).binding(), pytest.raises(OutOfTime, match="1 s is over"):
        isolate.run("the sleeper", sleep, 60, timeout_s=60)
    assert time.monotonic() - began < 20


def test_no_child_is_started_after_the_deadline():
    with Deadline(0).binding():
        assert deadline.over()
        with pytest.raises(OutOfTime):
            isolate.run("the sleeper", sleep, 0, timeout_s=60)
    assert not deadline.over()


def test_a_timeout_within_the_deadline_is_a_hang():
    with Deadline(60).binding(), pytest.raises(ProcessHung):
        isolate.run("the sleeper", sleep, 60, timeout_s=1)


def test_another_thread_gets_it_only_where_it_is_carried_there():
    with Deadline(0).binding(), ThreadPoolExecutor(1) as pool:
        assert not pool.submit(deadline.over).result()
        assert pool.submit(with_deadline(deadline.over)).result()


def test_being_stopped_says_nothing_of_what_was_stopped():
    assert not issubclass(OutOfTime, BadInput)
