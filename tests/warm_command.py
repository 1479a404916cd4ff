"""Commands for tests, forked from a process that has imported what they import: 6 s of a `paddleship run` are imports, and 2 of a stage.

`Popen` takes the place of `subprocess.Popen`: the command lines of paddleship and DVC, stages, the servers of Prefect and MLflow, workers
and the flow runs of workers are forked, everything else starts as it is. In the long form of the tests, and where a test asks for it with
the marker `spawned`, everything does.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import filelock

from tests import warm_fork

BIN = Path(sys.executable).parent
SERVER = Path(__file__).with_name("warm_command_server.py")
ADDRESS = "PADDLESHIP_TESTS_WARM_COMMANDS"
"""The variable with the address of the warm process; the commands that it forks start DVC in the same way."""
_DOORS = tuple(f"paddleship.{name}." for name in ("cli", "execution", "orchestration", "rollout", "servers", "tracking"))
_MODULES = (*_DOORS, "dvc", "tasks.", "benchmarks.", "tests.", "prefect.", "uvicorn")
_PYTHON = re.compile(r"python (-m )?(tasks\.\w+|\S+\.py)((?: [\w/.]+)*)")  # a stage's command in dvc.yaml
_COLD = ("compare-graph-modes",)  # it needs a fresh Paddle

_PROGRAMS = {
    str(BIN / name): module
    for name, module in {"paddleship": "paddleship.cli.main", "dvc": "dvc", "prefect": "prefect", "mlflow": "mlflow"}.items()
}

spawned = subprocess.Popen
_waitpid, _execve = os.waitpid, os.execve
_asked = weakref.WeakValueDictionary()
"""By process id, what the warm process forked for this one and has not been waited for."""


class Popen(spawned):
    """A process that is forked from the warm one if its command is one of those, and started otherwise; it has a session of its own."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others):
        self._warm = None
        environment = dict(os.environ if env is None else env)
        warm = environment.get(ADDRESS) and executable is None and preexec_fn is None and not isinstance(args, (str, bytes))
        stage = _stage(args) if warm else None
        request = stage or (_request(args) if warm else None)
        if request is None:
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others)
            return
        _startupinfo, _flags, _shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *_ = others
        streams = [given if given != -1 else standard for standard, given in enumerate((p2cread, c2pwrite, errwrite))]
        folder = str(Path(cwd or "").absolute())
        request = {"folder": folder, **request, "cwd": folder, "environment": environment, "numbers": [0, 1, 2, *pass_fds]}
        descriptors = [*streams, *pass_fds]
        self.pid = warm_fork.fork(request, descriptors) if stage else self._ask(request, descriptors, environment[ADDRESS])
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

    def _ask(self, request, descriptors, address):
        """The process id of what the warm process forks."""
        self._warm = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._warm.connect(address)
        socket.send_fds(self._warm, [json.dumps(request).encode()], descriptors)
        pid = int(self._warm.recv(20))
        _asked[pid] = self
        return pid

    def __del__(self, **options):
        super().__del__(**options)
        if self._warm is not None and self.returncode is not None:  # of a server that outlives this process
            self._warm.close()

    def _internal_poll(self, *arguments, **options):
        if self._warm is None or self.returncode is not None:
            return super()._internal_poll(*arguments, **options)
        pid, status = self._try_wait(os.WNOHANG)
        if pid:
            self._handle_exitstatus(status)
        return self.returncode

    def _try_wait(self, flags):
        if self._warm is None:
            return super()._try_wait(flags)
        with contextlib.suppress(BlockingIOError):
            status = self._warm.recv(20, socket.MSG_DONTWAIT if flags & os.WNOHANG else 0)
            self._warm.close()
            _asked.pop(self.pid, None)
            return self.pid, int(status or 9)  # the warm process has ended, and its children with it
        return 0, 0


def running():
    """The process ids of what the warm process forked for this one, and that has not been waited for."""
    return list(_asked)


def take_over():
    """In a process that was forked, start what it starts in the same way, also where asyncio waits for it or it becomes another program."""
    subprocess.Popen, os.waitpid, os.execve = Popen, _wait_for, _be


def _wait_for(pid, options):
    return _asked[pid]._try_wait(options) if pid in _asked else _waitpid(pid, options)


def _be(program, command, environment):
    request = _request(command)
    if request is None or threading.active_count() > 1:
        _execve(program, command, environment)
    os.environ.clear()
    os.environ.update(environment)
    from prefect import context

    context.refresh_global_settings_context()
    folder = str(Path.cwd())
    warm_fork.be({"folder": folder, **request, "cwd": folder, "environment": dict(environment), "numbers": [0, 1, 2]}, [0, 1, 2])


def _request(command):
    """What of a command line the warm process can do: a module and its arguments."""
    program, *arguments = map(os.fspath, command)
    if program == sys.executable and arguments[:1] == ["-m"] and arguments[1].startswith(_MODULES):
        request = {"module": arguments[1], "arguments": arguments[2:]}
    elif program in _PROGRAMS:
        request = {"module": _PROGRAMS[program], "arguments": arguments, "folder": str(BIN)}
    else:
        return None
    words = request["arguments"] or [""]
    is_cold = request["module"] == "paddleship.cli.main" and words[0] in ("", *_COLD)
    is_mlflows = request["module"] == "uvicorn" and words[-1].startswith("mlflow.")  # it must end with the group of `mlflow server`
    return None if is_cold or is_mlflows else request


def _stage(command):
    """The stage that DVC, in a process that was forked, starts with a shell."""
    found = _PYTHON.fullmatch(command[-1]) if warm_fork.children and command[-2:-1] == ["-c"] else None
    return {"module": found[2], "arguments": found[3].split()} if found else None


def serve(folder, *, until):
    """Have a warm process in that folder as long as the process with the id `until` lives, and return its address."""
    address = f"{folder}/commands"
    with filelock.FileLock(f"{folder}.lock"):
        if not folder.exists():
            folder.mkdir()
            server = spawned([sys.executable, str(SERVER), address, str(until)], stdout=subprocess.PIPE, start_new_session=True)
            with server.stdout as said:
                assert said.readline() == b"warm\n"
            server.returncode = 0  # it outlives this process, so nobody waits for it
    return address
