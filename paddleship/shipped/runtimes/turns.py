"""Let concurrent callers share one runtime: their calls run one after the other in a separate thread.

A runtime must be used by one thread at a time: shared by two, a Paddle predictor silently mixes up answers. It may hold the
GIL while it runs. The server uses this class, and `verify` proves candidates with it.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Turns:
    """A thread that runs the submitted functions one after the other."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="inference")

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        return self._thread.submit(function, *arguments)

    def close(self) -> None:
        """Finish the submitted functions and end the thread."""
        self._thread.shutdown(wait=True)
