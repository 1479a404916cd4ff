"""Compare the chosen candidate with the eager model, metric by metric, in one clause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddleship.config.catalogue import EAGER
from paddleship.reports.figures import distinct

Row = Mapping[str, Any]

PERCENTILES = ("p99_ms", "p95_ms", "p90_ms", "p50_ms")
TIMED = frozenset({*PERCENTILES, "throughput_per_s", "cost_per_million"})
_MORE_IS_BETTER = frozenset({"throughput_per_s"})
_MEDIAN = "p50_ms"


def cost(row: Row, metric: str) -> float:
    """The metric as a number of which less is better."""
    return float(-row[metric] if metric in _MORE_IS_BETTER else row[metric])


def distance(one: Row, other: Row, metric: str) -> str:
    """The distance between two rows, as a share or a multiple of the smaller one."""
    ratio = max(one[metric], other[metric]) / min(one[metric], other[metric])
    return f"{100 * (ratio - 1):.0f}%" if ratio < 3 else f"{ratio:.1f}×"


def nearest(metric: str, *rows: Row) -> str | None:
    """The metric if every row has it, otherwise the highest percentile below it that all rows have."""
    below = PERCENTILES[PERCENTILES.index(metric) :] if metric in PERCENTILES else (metric,)
    return next((key for key in below if all(row.get(key) is not None for row in rows)), None)


def describe(eager: Row | None, best: str, rows: Mapping[str, Row], metric: str, *, out: str) -> str:
    """Eager's value of the metric, and of the median if that disagrees; if eager is better, how to ship it.

    `out` is the reason why `paddle-eager` cannot be chosen, empty if it was not requested.
    """
    if eager is None:
        return ""
    own = rows[best]
    seen = nearest(metric, eager, own)
    lacking = f"; eager has too few samples for {metric}" if seen != metric and metric in TIMED else ""
    if seen is None:
        return lacking
    better = cost(eager, seen) < cost(own, seen)
    text = f"{lacking}; {_compared(eager, own, best, seen, better=better)}"
    if _turns(eager, own, seen, better=better):
        text += f"; the median ({_MEDIAN}) shows the opposite: {_median(eager, own, best)}"
    elif better:
        text += ", so a static graph is not faster here" if seen in TIMED else ""
    if not better or (EAGER in rows and not out):
        return text
    return f"{text}; {EAGER} {out}" if out else f"{text}; to ship it, add {EAGER} to optimize.candidates"


def _compared(eager: Row, own: Row, best: str, metric: str, *, better: bool) -> str:
    figures = "({} against {} of {})".format(*distinct(eager[metric], own[metric], 3), best)
    return f"in {metric} eager is {distance(eager, own, metric)} {'better' if better else 'worse'} {figures}"


def _turns(eager: Row, own: Row, metric: str, *, better: bool) -> bool:
    """Whether the median disagrees with a metric of time."""
    if metric not in TIMED - {_MEDIAN} or nearest(_MEDIAN, eager, own) is None or eager[_MEDIAN] == own[_MEDIAN]:
        return False
    return bool(eager[_MEDIAN] < own[_MEDIAN]) != better


def _median(eager: Row, own: Row, best: str) -> str:
    """Which of the two is faster in the median, with the interval of the comparison if there is one."""
    faster, slower = sorted((own, eager), key=lambda row: float(row[_MEDIAN]))
    name = best if faster is own else "eager"
    text = f"{name} is {distance(faster, slower, _MEDIAN)} better ({' against '.join(distinct(faster[_MEDIAN], slower[_MEDIAN], 3))}"
    low, high = own.get("speedup_low"), own.get("speedup_high")
    interval = f"; {best} is {low:.2f} to {high:.2f}× as fast as eager, 95% interval" if low is not None and high is not None else ""
    return f"{text}{interval})"
