"""`python paddleship/execution/reaper.py FD MARK`: when the command that started it ends, end every process that it left behind.

A temporary Prefect server and every stage have sessions of their own, so nothing else ends them with a command that is killed; but they
inherit the environment, and with it the mark. Standard library only, because one of these waits beside every `paddleship run`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

_VARIABLE = "PADDLESHIP_COMMAND"
_ROUNDS = 20  # processes may start others while they are ended


def guard_descendants() -> None:
    """Mark this process's descendants, and end them when this process ends in any way; without /proc, do nothing."""
    if not Path("/proc/self/environ").exists():
        return
    read_end, _write_end = os.pipe()  # the other end stays open while this process lives
    mark = os.urandom(16).hex()
    command = [sys.executable, "-S", "-E", str(Path(__file__).resolve()), str(read_end), mark]
    subprocess.Popen(command, pass_fds=(read_end,), start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    os.close(read_end)
    os.environ[_VARIABLE] = mark


def main() -> None:
    pipe, mark = int(sys.argv[1]), sys.argv[2]
    os.read(pipe, 1)  # returns when the other end is closed; nothing is ever written
    for _ in range(_ROUNDS):
        left = _marked(f"{_VARIABLE}={mark}".encode())
        if not left:
            break
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


def _marked(variable: bytes) -> list[int]:
    """The processes that inherited the variable; those of other users cannot be read and are not ours."""
    pids = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if variable in (folder / "environ").read_bytes().split(b"\0"):
                    pids.append(int(folder.name))
    return pids


if __name__ == "__main__":
    main()
