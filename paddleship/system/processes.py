"""A process with everything that it started."""

from __future__ import annotations

import os
import platform
import signal
import sys
from contextlib import suppress
from pathlib import Path

_CLOCK_SET_S = 2.0  # start times are told by the clock, which may be set meanwhile
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def identity(pid: int | None = None) -> str:
    """What names a process, by default this one, for as long as machines run: boot, pid namespace, pid and start time."""
    import psutil

    pid = os.getpid() if pid is None else pid
    return f"{_realm()}/{pid}/{psutil.Process(pid).create_time():.2f}"


def lives(identity: str) -> bool | None:
    """Whether the process of that identity lives; None where it cannot be seen: on another machine, in another pid namespace."""
    import psutil

    realm, pid, started = identity.rsplit("/", 2)
    if realm != _realm():
        return None
    try:
        process = psutil.Process(int(pid))
        return process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - float(started)) < _CLOCK_SET_S
    except psutil.NoSuchProcess:
        return False


def _realm() -> str:
    """The boot of this machine and the pid namespace that this process is in: where a process id means one process."""
    boot, namespace = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    if boot.exists() and namespace.is_symlink():
        return f"{boot.read_text().strip()}/{namespace.readlink()}"
    return platform.node()


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
