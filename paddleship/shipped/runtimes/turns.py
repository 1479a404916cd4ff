"""How callers of many threads share one runtime: they take turns on a thread of its own.

A runtime serves one thread at a time (shared by two, a Paddle predictor silently mixes up answers) and may hold
the GIL while it runs. The server shares its model by this, and verify proves this.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Turns:
    """One thread that does what it is given, one thing after the other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inference")

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self._thread.submit(function, *arguments)

    def close(self) -> None:
        """Finish what was submitted."""
        self._thread.shutdown(wait=True)
