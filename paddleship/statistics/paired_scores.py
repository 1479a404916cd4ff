"""Two scores on the same rows: each is a sum of one number for each row, and the rows tell whether the sums differ."""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from paddleship.numerics.differences import proportion_interval
from paddleship.statistics.estimates import Interval

Array = np.ndarray[Any, Any]
_ROUNDING = 1e-5  # of float32 numbers


def difference(one: Array, other: Array) -> Interval | None:
    """How much larger the score of `one` is, by what each row adds to it, with its 95% interval; None unless both have as many rows.

    Where all rows that differ do so by the same amount, as decisions do, the interval holds 0 if the exact test of changed rows (McNemar's)
    does not decide. Besides, the variance is that of the sum of differences, with one more row that differs as the most different one does,
    as Agresti and Min (2005) add to shares: the interval of few rows is too narrow without it.
    """
    if not len(one) or len(one) != len(other):
        return None
    differences = one - other
    value, low, high = float(differences.sum()), *_by_variance(differences)
    sizes = np.unique(np.abs(differences[differences != 0]))
    if len(sizes) and sizes[-1] - sizes[0] <= _ROUNDING * sizes[-1]:
        better, changed = int((differences > 0).sum()), int((differences != 0).sum())
        ends = [float(sizes[-1]) * changed * (2 * share - 1) for share in proportion_interval(better, changed)]
        low, high = min(low, ends[0]), max(high, ends[1])
    return Interval(value, low, high)


def _by_variance(differences: Array) -> tuple[float, float]:
    """The interval of the sum of differences, by Student's t."""
    from scipy.special import stdtrit

    squares = (differences - differences.mean()) ** 2
    reach = float(stdtrit(max(len(differences) - 1, 1), 0.975)) * sqrt(float(squares.sum() + (differences**2).max()))
    value = float(differences.sum())
    return value - reach, value + reach
