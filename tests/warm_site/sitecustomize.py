"""Python imports this first where its folder is on PYTHONPATH: the child processes of a stage that converts or proves start warm."""

import multiprocessing
import sys

_STAGES = ("tasks.export", "tasks.optimize", "tasks.verify", "tasks.benchmark")
_spawn = multiprocessing.get_context


def _warm(method=None):
    if method != "spawn":
        return _spawn(method)
    from tests import warm

    multiprocessing.get_context = _spawn
    context = warm.Context()
    context.start()
    multiprocessing.get_context = lambda other=None: context if other == "spawn" else _spawn(other)
    return context


if any(word in _STAGES for word in sys.orig_argv):
    multiprocessing.get_context = _warm
