"""Percentiles, ratios with an interval, differences, slopes, and the knee of a curve.

A percentile is only stated from as many samples as MLPerf LoadGen's early-stopping rule requires. Intervals are 95%.
Processes of the same program differ (memory layout, hash seeds), so a ratio is bootstrapped over starts of the processes and,
within each start, over the interleaved blocks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

ENOUGH = {"p50_ms": 5, "p90_ms": 64, "p95_ms": 130, "p99_ms": 662}
_RESAMPLES = 4_000
_FEWEST_POINTS = 4  # of a slope; three points are too easily on a line


class Difference(StrEnum):
    """The difference that the interval of a ratio shows."""

    BETTER = "better"
    WORSE = "worse"
    CANNOT_TELL = "cannot tell"


class Interval(NamedTuple):
    """A value with its 95% interval."""

    value: float
    low: float
    high: float

    @property
    def reach(self) -> float:
        """The factor, at least 1, between 1 and the far end of the interval of a ratio."""
        return max(self.high, 1 / self.low)


def percentiles(samples: Sequence[float]) -> dict[str, float | None]:
    """p50 to p99 of samples in ms; None if there are fewer than ENOUGH."""
    return {key: float(np.percentile(samples, float(key[1:3]))) if len(samples) >= enough else None for key, enough in ENOUGH.items()}


def ratio(logarithms: Sequence[Sequence[float]]) -> Interval:
    """The median ratio with its interval, from logarithms of the ratios of paired blocks, one sequence per start of the processes."""
    return Interval(*(math.exp(value) for value in _hierarchical(logarithms)))


def change(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> Interval:
    """The ratio of two results that were not measured side by side (after over before): each is bootstrapped separately."""
    draws = _draws(after, 0) - _draws(before, 1)
    value = _middle(after) - _middle(before)
    low, high = np.percentile(draws, [2.5, 97.5])
    return Interval(math.exp(value), math.exp(float(low)), math.exp(float(high)))


def difference(speedup: Interval, aa_ratio: Interval | None, *, effect: float) -> Difference:
    """The difference that a speedup shows: at least `effect`, with its whole interval beyond 1 and beyond the A/A ratio.

    `aa_ratio` is the ratio of the baseline to itself.
    """
    floor = aa_ratio.reach if aa_ratio else 1.0
    if speedup.low > floor and speedup.value >= 1 + effect:
        return Difference.BETTER
    if speedup.high < 1 / floor and speedup.value <= 1 / (1 + effect):
        return Difference.WORSE
    return Difference.CANNOT_TELL


def settled(speedup: Interval, aa_ratio: Interval | None, *, effect: float) -> bool:
    """Whether more samples are useless: the difference is decided, or the interval excludes one of `effect`."""
    return difference(speedup, aa_ratio, effect=effect) != Difference.CANNOT_TELL or (
        speedup.low > 1 / (1 + effect) and speedup.high < 1 + effect
    )


def slope(series: Sequence[Sequence[tuple[float, float]]]) -> Interval | None:
    """Theil-Sen slope of y over x: the median over several series, with an interval that contains the intervals of all series.

    None if no series has enough points. A single step, as of an allocator, does not change it; steady growth does.
    """
    from scipy import stats

    slopes = []
    for points in series:
        x, y = np.array(points, float).reshape(-1, 2).T
        if len(points) >= _FEWEST_POINTS and np.ptp(x) > 0:
            result = stats.theilslopes(y, x)
            slopes.append((float(result.slope), float(result.low_slope), float(result.high_slope)))
    if not slopes:
        return None
    middle = float(np.median([each[0] for each in slopes]))
    return Interval(middle, min(each[1] for each in slopes), max(each[2] for each in slopes))


def lasting_slope(points: Sequence[tuple[float, float]]) -> Interval | None:
    """The slope of the second half if it is at least half of the first half's; None if growth comes to an end."""
    half = len(points) // 2
    early, late = slope([points[:half]]), slope([points[half:]])
    return late if early and late and 2 * late.value > early.value else None


def knee(rates: Mapping[int, float], *, gain: float) -> int | None:
    """The batch size (or count) from which the next one adds less than `gain` to the rate; None without rates."""
    sizes = sorted(rates)
    for size, larger in pairwise(sizes):
        if rates[larger] < rates[size] * (1 + gain):
            return size
    return sizes[-1] if sizes else None


def _hierarchical(starts: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    low, high = np.percentile(_draws(starts, 0), [2.5, 97.5])
    return _middle(starts), float(low), float(high)


def _middle(starts: Sequence[Sequence[float]]) -> float:
    return float(np.median(np.concatenate([np.asarray(start, float) for start in starts])))


def _draws(starts: Sequence[Sequence[float]], seed: int) -> np.ndarray[Any, Any]:
    """Medians of bootstrap samples: resampled starts, with resampled blocks within them."""
    filled = [np.asarray(start, float) for start in starts if len(start)]
    random = np.random.default_rng(seed)
    lengths = np.array([len(start) for start in filled])
    table = np.zeros((len(filled), lengths.max()))
    for row, start in enumerate(filled):
        table[row, : len(start)] = start
    chosen = random.integers(0, len(filled), (_RESAMPLES, len(filled), 1))
    blocks = (random.random((_RESAMPLES, len(filled), int(np.ceil(lengths.mean())))) * lengths[chosen]).astype(int)
    drawn: np.ndarray[Any, Any] = np.median(table[chosen, blocks].reshape(_RESAMPLES, -1), axis=1)
    return drawn
