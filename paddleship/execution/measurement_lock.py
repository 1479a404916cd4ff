"""Runs that were started together compute at the same time, but none computes while one of them measures.

Each stage holds a lock shared, `benchmark` holds it alone. The runs know the lock from an environment variable; other runs do not wait.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

VARIABLE = "PADDLESHIP_QUIET_LOCK"
_MEASURES = "benchmark"


@contextmanager
def turn(stage: str, *, on_line: Callable[[str], None]) -> Iterator[None]:
    """A block in which a stage may run."""
    path = os.environ.get(VARIABLE)
    if not path:
        yield
        return
    alone = stage == _MEASURES
    with ExitStack() as held:
        door = held.enter_context(ExitStack())  # a stage that waits for the exclusive lock holds it, so that no other stage begins
        _acquire(Path(f"{path}.door"), fcntl.LOCK_EX, door, stage, on_line)
        _acquire(Path(path), fcntl.LOCK_EX if alone else fcntl.LOCK_SH, held, stage, on_line)
        if not alone:
            door.close()
        yield


def _acquire(path: Path, kind: int, held: ExitStack, stage: str, on_line: Callable[[str], None]) -> None:
    file = held.enter_context(path.open("a", encoding="utf-8"))  # the kernel releases its lock when it is closed
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        on_line(f"{stage}: waiting, because a variant is measured alone")
        fcntl.flock(file, kind)
