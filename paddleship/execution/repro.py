"""Run one `dvc repro` as a process: stream its output, interpret it, and leave no process behind."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from paddleship.execution import dvc_process
from paddleship.execution.dvc_process import Command
from paddleship.system import deadline, locks

_RESTORED = re.compile(r"Stage '.*' is cached - skipping run|Pulling data for ")
_EXIT = re.compile(r"exited with (-?\d+)")
_ERRNO = re.compile(r"\[Errno (\d+)\]")
_DVC_NOISE = (
    "Use `dvc push`",
    "To track the changes",
    "\tgit add",
    "To enable auto staging",
    "\tdvc config",
    "Updating lock file",
    "Data and pipelines are up to date",
)
_STALE_LOCK = re.compile(r"Process '.*' with \(Pid .*\), in RWLock-file '.*' had been killed")
_ERROR = ("error: ", "ERROR: ")  # of the stage and of DVC: printed once, in the error of this run
_GRACE_S = 10
_SILENT_S = 1


class StageStatus(StrEnum):
    """The result of a stage in a run."""

    RAN = "ran"
    RESTORED = "restored"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass
class ReproResult:
    """How one `dvc repro` ended, judged by its output. `status` is RAN only if DVC says that it runs the command."""

    status: StageStatus = StageStatus.UNCHANGED
    stage_code: int = 0
    stage_error: str = ""
    dvc_error: str = ""
    returncode: int = 0

    @property
    def is_busy(self) -> bool:
        return "is busy, it is being blocked by" in self.dvc_error

    @property
    def dvc_errno(self) -> int | None:
        """The number of the system's error that ended DVC itself, if it printed one."""
        match = _ERRNO.search(self.dvc_error)
        return int(match[1]) if match else None

    def read(self, line: str) -> None:
        if line.startswith("Running stage '"):
            self.status = StageStatus.RAN
        elif self.status != StageStatus.RAN and _RESTORED.match(line):  # the stage's own output comes after DVC's line
            self.status = StageStatus.RESTORED
        elif line.startswith("error: "):
            self.stage_error = line.removeprefix("error: ")
        elif line.startswith("ERROR: "):
            self.dvc_error = line.removeprefix("ERROR: ")
        elif self.dvc_error.endswith(":"):  # DVC prints the names on separate lines
            self.dvc_error += f" {line.strip()}"
        if match := _EXIT.search(line):
            self.stage_code = int(match[1])


def repro(root: Path, address: str, *, environment: dict[str, str], on_line: Callable[[str], None], force: bool) -> ReproResult:
    """Run `dvc repro` for one stage, in a process group that ends with this process, and at the deadline if there is one."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, **environment, "PATH": path, "PYTHONUNBUFFERED": "1"}
    arguments = ("--wait-for-lock", "repro", "--single-item", "--force" if force else "--pull", address)
    ended = ReproResult()
    with dvc_process.command(root, *arguments, environment=environment) as process:
        try:
            for line in _until_deadline(process, on_line):
                text = line.rstrip()
                ended.read(text)
                if text and not text.startswith((*_DVC_NOISE, *_ERROR)) and not _STALE_LOCK.search(text):
                    on_line(text)
            ended.returncode = process.wait()
        finally:
            _end_group(process, on_line)
    return ended


@contextmanager
def turn(path: Path, *, other: str, on_line: Callable[[str], None]) -> Iterator[None]:
    """A block that one run at a time may execute, with the lock `path`, which the kernel releases when a run is killed.

    `other` says in the message of a waiting run what the other one does.
    """
    lock = locks.take(path)
    if lock is None:
        on_line(f"waiting: another run {other}")
        lock = locks.wait_for(path)
    with lock:
        yield


def _until_deadline(process: Command, on_line: Callable[[str], None]) -> Iterator[str]:
    """The lines of a command, whose processes are ended at the deadline."""
    bound = deadline.current()
    timer = threading.Timer(bound.left(), _end_group, [process, on_line]) if bound else None
    if timer:
        timer.daemon = True
        timer.start()
    try:
        yield from process.stdout
    finally:
        if timer:
            timer.cancel()


def _end_group(process: Command, on_line: Callable[[str], None]) -> None:
    """End the stage and its descendants: first SIGTERM, then SIGKILL, and a line where that takes more than a moment."""
    _signal_group(process, signal.SIGTERM)
    if _ends_within(_SILENT_S, process):
        return
    on_line(f"stopping: the stage has {_GRACE_S} s to end, then it is killed")
    if not _ends_within(_GRACE_S - _SILENT_S, process):
        _signal_group(process, signal.SIGKILL)
        _ends_within(_GRACE_S, process)


def _signal_group(process: Command, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _ends_within(seconds: float, process: Command) -> bool:
    end = time.monotonic() + seconds
    while _works(process):
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _works(leader: Command) -> bool:
    """Whether a process of the group works. A zombie does not: it stays where nobody waits for orphans, as in a container without init."""
    import psutil

    leader.poll()
    try:
        os.killpg(leader.pid, 0)
    except ProcessLookupError:
        return False
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getpgid(process.pid) == leader.pid and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False
