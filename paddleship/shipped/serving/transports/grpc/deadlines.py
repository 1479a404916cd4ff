"""Deadlines of what clients do, looked at once a second: a timer for each would cost a request a tenth of a millisecond."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_TICK_S = 1.0


class Deadlines:
    """The tasks of one event loop that wait for a client, and until when."""

    def __init__(self) -> None:
        self._ends: dict[asyncio.Task[Any], float] = {}
        self._over: set[asyncio.Task[Any]] = set()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Raises TimeoutError if the block of this task takes longer, to the second."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("no task is running")
        self._ends[task] = asyncio.get_running_loop().time() + seconds
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._over or task.uncancel():
                raise
            raise TimeoutError from None
        finally:
            del self._ends[task]
            self._over.discard(task)

    async def watch(self) -> None:
        """End what takes too long, until cancelled."""
        while True:
            await asyncio.sleep(_TICK_S)
            self.look(asyncio.get_running_loop().time())

    def look(self, now: float) -> None:
        for task in [task for task, end in self._ends.items() if now > end and task not in self._over]:
            self._over.add(task)
            task.cancel()
