"""Search the highest load that keeps a latency objective: bisection over Server runs, within a time budget.

LoadGen's own search (FindPeakPerformance) has no time budget, and accepts a load by its observed percentile, however few queries there
were. Here every load must keep the objective with confidence. The lowest load that failed is tried a second time, because a busy moment
of the machine may be the cause. The peak is still a lower bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, sqrt

from paddleship.loadgen.scenarios import Measured, Server
from paddleship.loadgen.stopping import percentile_of
from paddleship.reports.figures import beside, limit

_RUNS = 10
_CLOSE = 1.05
_CHANCES = 2
_LOWEST_SHARE = 1 / 32


@dataclass(frozen=True)
class RateTrial:
    """One load that was tried: whether it kept the objective, and its p99 (None if no query was answered)."""

    target_qps: float
    p99_ms: float | None
    held: bool


@dataclass(frozen=True)
class Peak:
    """`measured` is the run at the highest load that kept the objective; None if none did, then `reason` says how near the best came."""

    slo_p99_ms: float
    measured: Measured | None
    trials: list[RateTrial]
    reason: str

    @property
    def qps(self) -> float | None:
        return self.measured.scenario.target_qps if self.measured and isinstance(self.measured.scenario, Server) else None


def search(measure: Callable[[Server], Measured], lowest: Server, *, capacity_per_s: float, max_seconds: float) -> Peak:
    """Try loads from half of `capacity_per_s` upwards; `lowest` has the scenario's other settings."""
    start = time.monotonic()
    trials: list[RateTrial] = []
    best: Measured | None = None
    while (qps := _next(trials, capacity_per_s)) is not None:
        scenario = _at(lowest, qps, max_seconds / _RUNS)
        if time.monotonic() - start + max(scenario.min_seconds, scenario.min_queries / qps) > max_seconds:
            break
        measured = measure(scenario)
        p99_ms = percentile_of(measured.latencies_ms, 0.99) if measured.latencies_ms else None
        trials.append(RateTrial(qps, p99_ms, measured.valid))
        if measured.valid:
            best = measured
    return Peak(lowest.slo_p99_ms, best, trials, "" if best else _why_none(lowest, trials, capacity_per_s, max_seconds))


def _next(trials: list[RateTrial], capacity_per_s: float) -> float | None:
    """The load to try next; None when the peak is known. Loads below one that kept the objective are not tried again."""
    if not trials:
        return capacity_per_s / 2
    held = max((trial.target_qps for trial in trials if trial.held), default=0.0)
    misses = [trial.target_qps for trial in trials if trial.target_qps > held]
    missed = min(misses, default=inf)
    if missed == inf:
        return 2 * held
    if missed > _CLOSE * held:
        middle = sqrt(held * missed) if held else missed / 2
        return middle if middle >= _LOWEST_SHARE * capacity_per_s else None
    return missed if misses.count(missed) < _CHANCES else None


def _at(lowest: Server, qps: float, seconds: float) -> Server:
    return replace(lowest, target_qps=qps, min_seconds=max(seconds, lowest.min_seconds))


def _why_none(lowest: Server, trials: list[RateTrial], capacity_per_s: float, max_seconds: float) -> str:
    if not trials:
        qps = capacity_per_s / 2
        return (
            f"{lowest.min_queries} queries at {qps:.3g} a second take {lowest.min_queries / qps:.3g} s: raise max_seconds ({max_seconds:g})"
        )
    known = [trial for trial in trials if trial.p99_ms is not None]
    if not known:
        return (
            f"no query was answered at {trials[-1].target_qps:.3g} a second: the model is far slower than slo_p99_ms, so raise it, or "
            "choose a faster candidate"
        )
    nearest = min(known, key=lambda trial: trial.p99_ms or inf)
    seen = beside(nearest.p99_ms or 0.0, lowest.slo_p99_ms)
    return (
        f"no load met slo_p99_ms {limit(lowest.slo_p99_ms)}: the best of {len(trials)} had a p99 of {seen} ms at "
        f"{nearest.target_qps:.3g} a second; raise slo_p99_ms, or choose a faster candidate"
    )
