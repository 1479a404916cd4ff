"""Two scores on the same rows: each is a sum of one number for each row, and the rows tell whether the sums differ."""

from __future__ import annotations

import base64
import binascii
import zlib
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np

from paddleship.numerics.differences import proportion_interval
from paddleship.statistics.estimates import Interval

Array = np.ndarray[Any, Any]
_LONGEST_TEXT = 500_000  # in a report
_ROUNDING = 1e-5  # of float32 numbers


def pack(contributions: Array) -> str:
    """The contributions of all rows as compressed text for a report; empty if there are none, not all are finite, or they are too many."""
    with np.errstate(over="ignore"):  # what does not fit is not finite
        rows = contributions.astype("<f4")
    if not len(rows) or not np.isfinite(rows).all():
        return ""
    text = base64.b64encode(zlib.compress(rows.tobytes(), 9)).decode()
    return text if len(text) <= _LONGEST_TEXT else ""


def difference(one: str, other: str) -> Interval | None:
    """How much larger the score of `one` is, with the 95% interval of paired rows; None unless both packed texts have as many rows.

    Where all rows that differ do so by the same amount, as decisions do, the interval holds 0 if the exact test of changed rows (McNemar's)
    does not decide. Besides, the variance is that of the sum of differences, with one more row that differs as the most different one does,
    as Agresti and Min (2005) add to shares: the interval of few rows is too narrow without it.
    """
    rows = [_unpack(text) for text in (one, other)]
    if not len(rows[0]) or len(rows[0]) != len(rows[1]):
        return None
    differences = rows[0] - rows[1]
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


@lru_cache(maxsize=256)
def _unpack(text: str) -> Array:
    try:
        return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<f4").astype(np.float64)
    except (binascii.Error, zlib.error, ValueError):
        return np.zeros(0)
