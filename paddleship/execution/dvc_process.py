"""DVC's commands: one process per run imports DVC, which takes 0.6 s, and each command is a fork of it (see `execution.dvc_forks`)."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from paddleship.errors import Unavailable

_PROGRAM = "paddleship.execution.dvc_forks"
_MOST = 32  # bytes of an answer

_turn = threading.Lock()
_importer: _Importer | None = None


class Command:
    """A DVC command that runs: its process id, which is also that of its process group, and the output of both its streams."""

    def __init__(self, pid: int, stdout: IO[str], channel: socket.socket) -> None:
        self.pid = pid
        self.stdout = stdout
        self._channel = channel
        self._returncode: int | None = None

    def wait(self) -> int:
        """Wait until it ends. Returns its exit code, negative for a signal."""
        if self._returncode is None:
            self._returncode = _code(self._channel.recv(_MOST))
        return self._returncode

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        if self._returncode is None:
            try:
                self._returncode = _code(self._channel.recv(_MOST, socket.MSG_DONTWAIT))
            except BlockingIOError:
                return None
        return self._returncode


@contextmanager
def command(folder: Path, *arguments: str, environment: Mapping[str, str]) -> Iterator[Command]:
    """Run `dvc` in a process group of its own, which ends with the block, and with this process in any case.

    One at a time in this process. Raises Unavailable if the process that imports DVC has ended.
    """
    with _turn:
        channel = _importer_for(folder).channel
        guard, held = os.pipe()
        output, written = os.pipe()
        with os.fdopen(output, encoding="utf-8", errors="replace") as stdout:
            try:
                request = json.dumps({"arguments": arguments, "environment": dict(environment)})
                running = Command(_ask(channel, request, guard, written), stdout, channel)
            except BaseException:  # its answer must not be taken for that to the next request
                os.close(held)
                _end()
                raise
            try:
                yield running
            finally:
                os.close(held)  # what still runs is killed
                running.wait()


def get_ready(folder: Path) -> None:
    """Begin to import DVC for commands in a folder, and return at once."""
    with _turn:
        _importer_for(folder)


def is_of(command: Sequence[str], folder: Path) -> bool:
    """Whether this is the command line of a process that runs DVC's commands in a folder."""
    return [*command[1:3], *command[4:]] == ["-m", _PROGRAM, str(folder)]


class _Importer:
    """The process that imports DVC for commands in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", _PROGRAM, str(theirs.fileno()), str(folder)],
                cwd=folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"},  # the folder may hold another version of flows/
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )


def _importer_for(folder: Path) -> _Importer:
    global _importer
    if _importer is None or _importer.folder != folder or _importer.process.poll() is not None:
        _end()
        _importer = _Importer(folder)
    return _importer


@atexit.register
def _end() -> None:
    global _importer
    if _importer is not None:
        _importer.process.kill()
        _importer.process.wait()
        _importer.channel.close()
    _importer = None


def _ask(channel: socket.socket, request: str, guard: int, output: int) -> int:
    """Request a command. Returns its process id. Closes both descriptors."""
    request_file = os.memfd_create("request")  # an environment may be larger than a message
    try:
        with os.fdopen(request_file, "w", encoding="utf-8", closefd=False) as file:
            file.write(request)
        socket.send_fds(channel, [b"request"], [request_file, guard, output])
        answer = channel.recv(_MOST)
    except ConnectionError:
        answer = b""
    finally:
        for descriptor in (request_file, guard, output):
            os.close(descriptor)
    if not answer:
        raise Unavailable("the process that imports DVC ended: see its message above, or check memory limits, then run again")
    return int(answer)


def _code(answer: bytes) -> int:
    """The exit code that was sent; nothing is sent when the importing process was killed."""
    return int(answer) if answer else -signal.SIGKILL
