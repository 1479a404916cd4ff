"""File locks between processes; the kernel releases them when the process that holds them ends."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from filelock import AcquireReturnProxy, FileLock, Timeout

from paddleship.errors import Unavailable

FOLDER = "PADDLESHIP_LOCKS"  # names the folder of the machine's locks; all containers of a machine must mount the same one
_EVERYONE = 0o1777  # nobody removes the files of others


def wait_for(path: Path) -> AcquireReturnProxy[Any]:
    """Acquire the lock `path`, waiting for as long as another process holds it; release it with `with` or `lock.release()`."""
    return _lock(path).acquire()


def take(path: Path) -> AcquireReturnProxy[Any] | None:
    """Acquire the lock `path`, or return None if another process holds it; release it with `with` or `lock.release()`."""
    return _acquire(path, within_s=0)


def is_held(path: Path) -> bool:
    """Whether a process holds the lock `path`."""
    lock = take(path)
    if lock is not None:
        lock.lock.release()
    return lock is None


@contextmanager
def only_one(path: Path, *, what: str) -> Iterator[None]:
    """A block that one process at a time may run. Raises Unavailable if another process runs it."""
    lock = take(path)
    if lock is None:
        raise Unavailable(
            f"{what} is running in {str(Path.cwd())!r} already, and two would overwrite each other's files: wait for it, or work in a "
            "folder of your own (`git worktree add`)"
        )
    with lock:
        yield


@contextmanager
def turn_on_machine(what: str, *, say: Callable[[str], None] = print, every_s: float = 15) -> Iterator[None]:
    """A block that one process of this machine at a time may run; waits, and reports the running process every `every_s` seconds."""
    path, began = of_machine(what), time.monotonic()
    note, lock = path.with_suffix(".holder"), take(path)
    while lock is None:
        say(f"waiting to {what}: one at a time on this machine, now {_holder(note)}; {time.monotonic() - began:.0f} s so far")
        lock = _acquire(path, within_s=every_s)
    with lock:
        _sign(note)
        yield


def _acquire(path: Path, *, within_s: float) -> AcquireReturnProxy[Any] | None:
    try:
        return _lock(path).acquire(timeout=within_s)
    except Timeout:
        return None


def _sign(note: Path) -> None:
    """Write who holds the lock, for the messages of waiting processes; nothing else reads it."""
    since = datetime.now().astimezone().strftime("%H:%M:%S")
    facts = {"pid": os.getpid(), "machine": platform.node(), "folder": str(Path.cwd()), "since": since}
    with suppress(OSError):
        note.unlink(missing_ok=True)  # the file may belong to another user
        with os.fdopen(os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "w", encoding="utf-8") as stream:
            stream.write(json.dumps(facts))


def _holder(note: Path) -> str:
    try:
        facts = json.loads(note.read_text(encoding="utf-8"))
        return f"process {facts['pid']} in {facts['folder']} ({facts['machine']}, since {facts['since']})"
    except (OSError, ValueError, KeyError):
        return "another process"


def of_machine(what: str) -> Path:
    """The lock of `what` that all users of this machine share; not below TMPDIR, which differs between users."""
    folder = Path(os.environ.get(FOLDER) or "/tmp/paddleship")  # noqa: S108 nothing is read from a lock but who holds it
    folder.mkdir(parents=True, exist_ok=True)
    if folder.is_symlink():
        raise Unavailable(f"{folder} is a symbolic link, which another user may have made: remove it, or set {FOLDER} to a folder")
    if folder.stat().st_uid == os.getuid():
        folder.chmod(_EVERYONE)
    return folder / f"{what}.lock"


def _lock(path: Path) -> FileLock:
    path.parent.mkdir(parents=True, exist_ok=True)
    shared = path.parent.stat().st_mode & 0o002
    return FileLock(path, thread_local=False, mode=0o666) if shared else FileLock(path, thread_local=False)
