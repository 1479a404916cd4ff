"""Locks between processes, by file; the kernel frees them when their holder ends, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import AcquireReturnProxy, FileLock, Timeout

from paddleship.errors import Unavailable


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


def _lock(path: Path) -> FileLock:
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path, thread_local=False)
