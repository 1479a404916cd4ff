"""Two scores on the same rows: each is a sum of one number for each row, and the rows tell whether the sums differ."""

from __future__ import annotations

import base64
import binascii
import zlib
from math import sqrt
from typing import Any

import numpy as np

from paddleship.statistics.estimates import Interval

Array = np.ndarray[Any, Any]
_LONGEST_TEXT = 500_000  # in a report
_Z = 1.959964  # two-sided, 95%


def pack(contributions: Array) -> str:
    """The contributions of all rows as compressed text for a report; empty if there are none, not all are finite, or they are too many."""
    if not len(contributions) or not np.isfinite(contributions).all():
        return ""
    text = base64.b64encode(zlib.compress(contributions.astype("<f4").tobytes(), 9)).decode()
    return text if len(text) <= _LONGEST_TEXT else ""


def difference(one: str, other: str) -> Interval | None:
    """How much larger the score of `one` is, with the 95% interval of paired rows; None unless both packed texts have as many rows.

    The variance is that of the sum of differences. A further row that differs as the most different one does is added to it, as Agresti and
    Min (2005) do for shares, because the normal interval is too narrow where few rows differ.
    """
    rows = [_unpack(text) for text in (one, other)]
    if not len(rows[0]) or len(rows[0]) != len(rows[1]):
        return None
    differences = rows[0] - rows[1]
    squares = (differences - differences.mean()) ** 2
    reach = _Z * sqrt(float(squares.sum() + squares.max()))
    value = float(differences.sum())
    return Interval(value, value - reach, value + reach)


def _unpack(text: str) -> Array:
    try:
        return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<f4").astype(np.float64)
    except (binascii.Error, zlib.error, ValueError):
        return np.zeros(0)
