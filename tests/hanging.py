"""No test hangs: pytest-timeout interrupts it; what it started is ended; its process is ended, if it still goes on, and the others go on.

The interrupt alone is not enough: it does not reach a thread that waits for a child process, and pytest-timeout stops watching once a test
has failed, before its fixtures are torn down.
"""

import faulthandler
import os
import sys
import threading
from contextlib import contextmanager, suppress

import psutil
import pytest

from tests import warm_command

CHILDREN_AFTER_S = 10  # after the time limit of the test
EXIT_AFTER_S = 180  # for the fixtures that are torn down


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    marker = item.get_closest_marker("timeout")
    with limited(float(marker.args[0] if marker else item.config.getini("timeout"))):
        return (yield)


@contextmanager
def limited(seconds):
    """A block whose new child processes end soon after `seconds`, and later this process, with the stack of each thread."""
    others = set(_children())
    timers = [threading.Timer(seconds + CHILDREN_AFTER_S, _end_children, [others]), threading.Timer(seconds + EXIT_AFTER_S, _exit)]
    for timer in timers:
        timer.daemon = True
        timer.start()
    # For compiled code that holds Python's lock, in which no timer fires; pytest cancels it once a test has failed.
    faulthandler.dump_traceback_later(seconds + EXIT_AFTER_S, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        for timer in timers:
            timer.cancel()


def _exit():
    faulthandler.dump_traceback(sys.__stderr__)
    os._exit(1)


def _end_children(others):
    for process in set(_children()) - others:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _children():
    """All processes that this one started, also those that the warm process forked for it."""
    found = psutil.Process().children(recursive=True)
    for pid in warm_command.running():
        with suppress(psutil.NoSuchProcess):
            found += [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    return found
