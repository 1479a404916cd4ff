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
from xdist.scheduler import LoadFileScheduling

from tests import warm_command

CHILDREN_AFTER_S = 10  # after the time limit of the test
EXIT_AFTER_S = 180  # for the fixtures that are torn down


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    marker = item.get_closest_marker("timeout")
    with limited(float(marker.args[0] if marker else item.config.getini("timeout"))):
        return (yield)


class Scheduling(LoadFileScheduling):
    """Of `--dist loadfile`, which hands out finished files of a worker that ended, as no work at all, and waits for their end for ever.

    It would also run the test again with which the worker ended.
    """

    def remove_node(self, node):
        units = self.assigned_work.pop(node)
        unfinished = {scope: unit for scope, unit in units.items() if not all(unit.values())}
        if not unfinished:
            return None
        unit = next(iter(unfinished.values()))
        ended_with = next(name for name, is_done in unit.items() if not is_done)
        unit[ended_with] = True
        self.workqueue.update({scope: unit for scope, unit in unfinished.items() if not all(unit.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return ended_with


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


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
