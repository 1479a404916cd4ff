"""The time limit of a request in the protocol: its parameter `timeout`, in microseconds, of which 0 is no limit."""

from __future__ import annotations

import time

from paddleship.errors import RequestError
from paddleship.shipped.serving.errors import expired


def check(timeout: object, arrived: float) -> None:
    """Raises ServingError (EXPIRED) for a request that came so long ago, and RequestError for what is no time limit."""
    if not isinstance(timeout, int) or isinstance(timeout, bool) or timeout < 0:
        raise RequestError(f"the parameter 'timeout' is {str(timeout)[:40]!r}: send microseconds, a whole number; 0 for no limit")
    if timeout and arrived + timeout / 1e6 < time.perf_counter():
        raise expired()
