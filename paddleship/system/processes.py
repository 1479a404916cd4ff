"""A process with everything that it started."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def tree(pid: int) -> list[int]:
    """A process and all its descendants that still live."""
    import psutil

    found, tasks = [pid], Path(f"/proc/{pid}/task")
    if not tasks.exists():
        try:
            return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
        except psutil.Error:
            return [pid]
    try:
        for task in tasks.iterdir():
            for child in (task / "children").read_text().split():
                found += tree(int(child))
    except (OSError, ValueError):
        pass
    return found


def send(pid: int, what: signal.Signals) -> None:
    """Send a signal to a process and its descendants; those that have ended meanwhile do not mind."""
    for each in tree(pid):
        with suppress(ProcessLookupError):
            os.kill(each, what)


def end_with_parent() -> None:
    """Have the kernel, where it can, kill this process when the thread that started it ends: who is stopped or hangs does not notice."""
    import ctypes

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
