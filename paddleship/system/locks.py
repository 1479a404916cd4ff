"""Locks between processes, by file; the kernel frees them when their holder ends, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import AcquireReturnProxy, FileLock, Timeout

from paddleship.errors import Unavailable

FOLDER = "PADDLESHIP_LOCKS"  # names the folder of the machine's locks; containers of one machine must mount the same one
_EVERYONE = 0o777


def wait_for(path: Path) -> AcquireReturnProxy[Any]:
    """Hold the lock `path` until the block or `lock.release()` ends it; waits as long as another process holds it."""
    return _lock(path).acquire()


def take(path: Path) -> AcquireReturnProxy[Any] | None:
    """Hold the lock `path` until the block or `lock.release()` ends it; None where another process holds it."""
    try:
        return _lock(path).acquire(blocking=False)
    except Timeout:
        return None


@contextmanager
def only_one(path: Path, *, what: str) -> Iterator[None]:
    """Let one process at a time do `what`. Raises Unavailable."""
    lock = take(path)
    if lock is None:
        raise Unavailable(
            f"{what} is running in {str(Path.cwd())!r} already, and two would overwrite each other's files: wait for it, or work in a "
            "folder of your own (`git worktree add`)"
        )
    with lock:
        yield


def of_machine(what: str) -> Path:
    """The lock of `what` that all users of this machine share; not below TMPDIR, which differs between them."""
    folder = Path(os.environ.get(FOLDER) or "/tmp/paddleship")  # noqa: S108 nothing is read from a lock but who holds it
    folder.mkdir(parents=True, exist_ok=True)
    if folder.stat().st_uid == os.getuid():
        folder.chmod(_EVERYONE)
    return folder / f"{what}.lock"


def _lock(path: Path) -> FileLock:
    path.parent.mkdir(parents=True, exist_ok=True)
    shared = path.parent.stat().st_mode & 0o002
    return FileLock(path, thread_local=False, mode=0o666) if shared else FileLock(path, thread_local=False)
