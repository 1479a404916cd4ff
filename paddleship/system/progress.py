"""Progress lines for long work."""

from __future__ import annotations

import math
import sys
import time

_AT_TERMINAL_S, _IN_LOG_S = 2.0, 15.0


class Progress:
    """Count units of work and print rate and remaining time: every 2 s at a terminal, every 15 s in a log. A `total` of 0 is unknown.

    `eta=False` prints the rate only, for a part of longer work.
    """

    def __init__(self, what: str, total: int, unit: str, *, every_s: float | None = None, eta: bool = True) -> None:
        self._what, self._total, self._unit, self._eta = what, total, unit, eta
        self._every_s = every_s if every_s is not None else _AT_TERMINAL_S if sys.stdout.isatty() else _IN_LOG_S
        self._done = 0
        self._start = self._last = time.monotonic()

    def advance(self, count: int = 1, *, most_s: float = math.inf) -> None:
        """Count finished units; the work ends after `most_s` seconds at the latest."""
        self._done += count
        now = time.monotonic()
        if now - self._last < self._every_s:
            return
        self._last = now
        rate = self._done / (now - self._start)
        of_total = f"/{self._total:,}" if self._total else ""
        eta = f"  eta {clock(min((self._total - self._done) / rate, most_s))}" if self._total and self._eta else ""
        print(f"{self._what}  {self._done:,}{of_total} {self._unit}  {_short(rate)} {self._unit}/s{eta}")


def _short(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def clock(seconds: float) -> str:
    """Seconds as text: 8s, 2m10s, 1h05m."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"
