"""What a process that tests fork does to become the program that it is asked for: a module or a script, with arguments."""

import atexit
import gc
import multiprocessing
import os
import random
import runpy
import signal
import sys
import tempfile
import threading
import time
import traceback
import weakref
from multiprocessing import forkserver, resource_tracker
from pathlib import Path

from tests import warm

_FIRST, _KEPT = 500, 900  # descriptors: the first of those that move, and of those that stay
_LIBRARY = Path(__file__).parents[1] / "paddleship"

children = None
"""In a forked process, the context that its own child processes are forked with; None in any other."""
_paths = []
_library = {}  # the files of the library that this process has imported


def prepare():
    """Start the process that the children of forked programs are forked from."""
    global children
    _paths[:] = sys.path
    _library.update(_files(_LIBRARY))
    children = warm.Context()
    children.start()
    for place, (owner, name) in enumerate(
        ((forkserver._forkserver, "_forkserver_alive_fd"), (resource_tracker._resource_tracker, "_fd")), _KEPT
    ):
        os.dup2(getattr(owner, name), place)
        setattr(owner, name, place)
    forkserver._forkserver.ensure_running = lambda: None  # what is forked uses the one of this process
    for number in (signal.SIGSEGV, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # Paddle has taken them
    gc.freeze()


def _files(folder):
    """The modules below a folder."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.py")}


def _become(request, descriptors):
    """Make this process what a fresh interpreter is with this folder, environment, command line, and descriptors for `numbers`."""
    for place, descriptor in enumerate(descriptors, _FIRST):
        os.dup2(descriptor, place)
    os.closerange(3, _FIRST)
    for place, number in enumerate(request["numbers"], _FIRST):
        os.dup2(place, number)
        os.close(place)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # what the process that forked has read from its TMPDIR
    time.tzset()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout.reconfigure(line_buffering=bool(os.environ.get("PYTHONUNBUFFERED")) or sys.stdout.isatty())
    sys.path[:] = dict.fromkeys([request["folder"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *_paths])
    sys.argv = [request["module"], *request["arguments"]]
    random.seed()
    sys.modules["numpy"].random.seed()
    foreign = {*os.environ.get("PYTHONPATH", "").split(os.pathsep)} - {"", request["folder"], str(_LIBRARY.parent)}
    children.has_library = not foreign and _files(Path("paddleship")) == _library
    if request["module"].startswith("tasks."):  # the stage of a checkout has the code of that checkout
        warm.forget("tasks", "flows", *([] if children.has_library else ["paddleship"]))
    sys.orig_argv = [sys.executable, "-m", *sys.argv]
    warm.import_sitecustomize()
    get_context = multiprocessing.get_context
    multiprocessing.get_context = lambda method=None: children if method == "spawn" else get_context(method)


def fork(request, descriptors):
    """Fork this process, whatever it does now, for a program of the same session. Returns its process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        gc.freeze()
        atexit._clear()
        weakref.finalize._registry.clear()
        weakref.finalize._registered_with_atexit = False
        be(request, descriptors)
    return pid


def be(request, descriptors):
    """Be a process that runs the request, and end as the interpreter does, without what it does for memory: it would copy all pages."""
    try:
        os._exit(_run(request, descriptors))
    finally:
        os._exit(1)


def _run(request, descriptors):
    """Its exit code, after it has run to its end."""
    code = 0
    try:
        _become(request, descriptors)
        if request["module"].endswith(".py"):
            runpy.run_path(request["module"], run_name="__main__")
        else:
            runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    multiprocessing.util._exit_function()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code
