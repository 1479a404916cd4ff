"""Child processes for tests, forked from a process that has imported Paddle and has run nothing: 0.05 s in place of 2.

A user's child processes are spawned: each has a hash seed, addresses and thread pools of its own. So they are here in the long form
of the tests, and where a test asks for it with the marker `spawned`.
"""

import contextlib
import importlib
import multiprocessing
import os
import pkgutil
import random
import sys
from multiprocessing import forkserver

import numpy as np

import paddleship

# importing these starts no thread; OpenVINO and ONNX Runtime start one
_LIBRARIES = ["paddle", "onnx", "paddle2onnx", "networkx", "pydantic", "psutil", "scipy.stats", "yaml"]
_AT_START = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    **{"PYTHONWARNINGS": "ignore", "GLOG_minloglevel": "2"},
}


class Context:
    """What `isolate` needs of a multiprocessing context; with `ours`, its processes have imported this package too, as it is here."""

    def __init__(self, *, ours):
        self._context = multiprocessing.get_context("forkserver")
        modules = [module.name for module in pkgutil.walk_packages(paddleship.__path__, "paddleship.")] if ours else []
        self._context.set_forkserver_preload(_LIBRARIES + [name for name in modules if not name.endswith("__main__")])

    def start(self):
        """Start the process that forks. It has one thread, so that it never forks while another thread holds a lock."""
        before = {name: os.environ.get(name) for name in _AT_START}
        os.environ.update(_AT_START)
        try:
            forkserver.ensure_running()
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value

    def Pipe(self):
        return self._context.Pipe()

    def Process(self, *, target, args, **options):
        return self._context.Process(target=_with_its_own_state, args=(dict(os.environ), target, args), **options)


def _with_its_own_state(environment, target, arguments):
    """In the child: the environment of whoever asked for it, and other random numbers than its siblings, as a spawned one has."""
    import paddle

    os.environ.clear()
    os.environ.update(environment)
    random.seed()
    np.random.seed()
    paddle.seed(int.from_bytes(os.urandom(6), "little"))
    import_sitecustomize()
    target(*arguments)


def import_sitecustomize():
    """Import the module of that name if there is one, as a fresh interpreter does at its start."""
    sys.modules.pop("sitecustomize", None)
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")
