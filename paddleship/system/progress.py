"""Progress of long work: one line when something is worth saying, never more than a person can read."""

from __future__ import annotations

import time


class Progress:
    """Counts units of work and prints rate and remaining time, at most every `every_s` seconds; a `total` of 0 is unknown."""

    def __init__(self, what: str, total: int, unit: str, *, every_s: float = 2.0) -> None:
        self._what, self._total, self._unit, self._every_s = what, total, unit, every_s
        self._done = 0
        self._start = self._last = time.monotonic()

    def advance(self, count: int = 1) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._last < self._every_s:
            return
        self._last = now
        rate = self._done / (now - self._start)
        of_total = f"/{self._total:,}" if self._total else ""
        eta = f"  eta {clock((self._total - self._done) / rate)}" if self._total else ""
        print(f"{self._what}  {self._done:,}{of_total} {self._unit}  {_short(rate)} {self._unit}/s{eta}")


def _short(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def clock(seconds: float) -> str:
    """Seconds as a person reads them: 8s, 2m10s, 1h05m."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"
