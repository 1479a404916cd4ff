"""Commands for tests, forked from a process that has imported what they import: 6 s of a `paddleship run` are imports.

`Popen` takes the place of `subprocess.Popen`: the command line of paddleship and DVC's are forked, everything else starts as it is. In the
long form of the tests, and where a test asks for it with the marker `spawned`, everything does.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

BIN = Path(sys.executable).parent
SERVER = Path(__file__).with_name("warm_command_server.py")
ADDRESS = "PADDLESHIP_TESTS_WARM_COMMANDS"
"""The variable with the address of the warm process; the commands that it forks start DVC in the same way."""
_MODULES = ("flows.cli", "flows.child_guard", "dvc", "tests.flows.kill_before")
_COLD = ("ui", "worker", "doctor", "compare-graph-modes")  # they import Paddle, or become another program

spawned = subprocess.Popen


class Popen(spawned):
    """A process that is forked from the warm one if its command is one of those, and started otherwise; it has a session of its own."""

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others):
        self._warm = None
        environment = dict(os.environ if env is None else env)
        request = _request(args) if ADDRESS in os.environ and executable is None and preexec_fn is None else None
        if request is None:
            super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others)
            return
        _startupinfo, _flags, _shell, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *_ = others
        streams = [given if given != -1 else standard for standard, given in enumerate((p2cread, c2pwrite, errwrite))]
        request |= {"cwd": os.fspath(cwd or Path.cwd()), "environment": environment, "numbers": [0, 1, 2, *pass_fds]}
        self._warm = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._warm.connect(os.environ[ADDRESS])
        socket.send_fds(self._warm, [json.dumps(request).encode()], [*streams, *pass_fds])
        self.pid = int(self._warm.recv(20))
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)

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
            return self.pid, int(status or 9)  # the warm process has ended, and its children with it
        return 0, 0


def _request(command):
    """What of a command line the warm process can do: a module and its arguments."""
    if isinstance(command, (str, bytes)):
        return None
    program, *arguments = map(os.fspath, command)
    if program == sys.executable and arguments[:1] == ["-m"] and arguments[1] in _MODULES:
        folder, (module, *arguments) = "", arguments[1:]
    else:
        folder, module = str(BIN), {str(BIN / "paddleship"): "flows.cli", str(BIN / "dvc"): "dvc"}.get(program)
    if module is None or (module == "flows.cli" and (not arguments or arguments[0] in _COLD)):
        return None
    return {"module": module, "arguments": arguments, "folder": folder}


@contextlib.contextmanager
def serving():
    """The address of a warm process."""
    with tempfile.TemporaryDirectory(prefix="warm-") as folder:
        address = f"{folder}/commands"
        command = [sys.executable, str(SERVER), address]
        with spawned(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as server:
            assert server.stdout.readline() == b"warm\n"
            yield address
            server.stdin.close()
