"""Child processes for tests, forked from a process that has imported Paddle and has run nothing: 0.05 s in place of 2.

A user's child processes are spawned: each has a hash seed, addresses and thread pools of its own. So they are here in the long form
of the tests, and where a test asks for it with the marker `spawned`.
"""

import contextlib
import gc
import importlib
import multiprocessing
import os
import pickle
import pkgutil
import random
import sys
from multiprocessing import forkserver, reduction

import numpy as np

import paddleship

# importing these starts no thread; OpenVINO and ONNX Runtime start one
_LIBRARIES = ["paddle", "onnx", "paddle2onnx", "networkx", "pydantic", "psutil", "scipy.stats", "yaml"]
# no child process of the library imports these
_DOORS = tuple(f"paddleship.{name}" for name in ("cli", "orchestration", "rollout", "servers", "execution", "tracking"))
_AT_START = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
    **{"PYTHONWARNINGS": "ignore", "GLOG_minloglevel": "2"},
}


def library():
    """The names of the modules that child processes may import."""
    every = [module.name for module in pkgutil.walk_packages(paddleship.__path__, "paddleship.")]
    return [name for name in every if not name.startswith(_DOORS) and not name.endswith("__main__")]


class Context:
    """What `isolate` needs of a multiprocessing context; its processes have imported this package as it is here.

    Without `has_library` they have not: they import that of their `sys.path`.
    """

    def __init__(self):
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(_LIBRARIES + library())
        self.has_library = True

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
        given = (dict(os.environ), self.has_library, _Pickled((target, args)))
        return self._context.Process(target=_with_its_own_state, args=given, **options)


class _Pickled:
    """A value that its receiver loads when it has the modules for it."""

    def __init__(self, value):
        self._value = value

    def __reduce__(self):
        return bytes, (bytes(reduction.ForkingPickler.dumps(self._value)),)


def _with_its_own_state(environment, has_library, pickled):
    """In the child: the environment of whoever asked for it, and other random numbers than its siblings, as a spawned one has."""
    import paddle

    gc.freeze()  # a collection would copy the pages of all that was imported
    os.environ.clear()
    os.environ.update(environment)
    random.seed()
    np.random.seed()
    paddle.seed(int.from_bytes(os.urandom(6), "little"))
    import_sitecustomize()
    if not has_library:
        forget("paddleship")
    target, arguments = pickle.loads(pickled)  # noqa: S301 of the process that asked
    target(*arguments)


_forgotten = []  # what they hold would close a descriptor of the program when it is collected


def forget(*packages):
    """Let modules of these packages be imported anew."""
    _forgotten.extend(sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] in packages)


def import_sitecustomize():
    """Import the module of that name if there is one, as a fresh interpreter does at its start."""
    sys.modules.pop("sitecustomize", None)
    with contextlib.suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")
