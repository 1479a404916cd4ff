"""A process and its descendants."""

from __future__ import annotations

import os
import platform
import signal
import sys
from contextlib import suppress
from pathlib import Path

_CLOCK_SET_S = 2.0  # without /proc, start times follow the system clock, which may be set meanwhile
_STARTTIME = 19  # position of the field in /proc/PID/stat after the program's name; see proc(5)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def identity(pid: int | None = None) -> str:
    """A unique name of a process, by default this one: boot, pid namespace, pid and start time."""
    pid = os.getpid() if pid is None else pid
    return f"{_realm()}/{pid}/{_start(pid):.2f}"


def is_alive(identity: str) -> bool | None:
    """Whether the process with that identity is alive; None if it is on another machine or in another pid namespace."""
    import psutil

    realm, pid, started = identity.rsplit("/", 2)
    if realm != _realm():
        return None
    try:
        is_zombie = psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE
        return not is_zombie and abs(_start(int(pid)) - float(started)) < _CLOCK_SET_S
    except (psutil.NoSuchProcess, OSError):
        return False


def _start(pid: int) -> float:
    """When a process started: in seconds since the boot where there is /proc, so that the clock may be set; otherwise in epoch seconds."""
    import psutil

    stat = Path(f"/proc/{pid}/stat")
    if not stat.parent.parent.joinpath("self/stat").exists():
        return psutil.Process(pid).create_time()
    return int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[_STARTTIME]) / os.sysconf("SC_CLK_TCK")


def _realm() -> str:
    """The boot of this machine and the pid namespace of this process; within both, a pid is unique."""
    boot, namespace = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/pid")
    if boot.exists() and namespace.is_symlink():
        return f"{boot.read_text(encoding='utf-8').strip()}/{namespace.readlink()}"
    return platform.node()


def tree(pid: int) -> list[int]:
    """The pids of a process and of all its living descendants."""
    import psutil

    pids, tasks = [pid], Path(f"/proc/{pid}/task")
    if not tasks.exists():
        try:
            return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
        except psutil.Error:
            return [pid]
    try:
        for task in tasks.iterdir():
            for child in (task / "children").read_text(encoding="utf-8").split():
                pids += tree(int(child))
    except (OSError, ValueError):
        pass
    return pids


def send(pid: int, what: signal.Signals) -> None:
    """Send a signal to a process and its descendants; those that have ended are skipped."""
    for each in tree(pid):
        with suppress(ProcessLookupError):
            os.kill(each, what)


def end_with_parent() -> None:
    """Let the kernel kill this process when the thread that started it ends, also if this process is stopped or hangs (Linux)."""
    import ctypes

    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
