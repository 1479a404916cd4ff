"""Distances between two sets of answers.

All comparisons of answers use `elementwise_distance`, so that NaN, infinity and different shapes mean the same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_RTOL = 1e-5
_PLAINLY = 1e-2
_RESAMPLES = 2_000


@dataclass(frozen=True)
class OutputErrors:
    """Distances between two arrays of the same shape; infinite if one has a NaN or infinity that the other does not have.

    `max_rel_diff` leaves out elements that are zero in the reference. `required_atol` is the smallest atol with which numpy's
    allclose at rtol 1e-5 passes. `max_ulp` counts the float32 values between two elements. `cosine` is the cosine of the angle
    between the arrays as vectors (1 if both are zero), over elements that are finite in both.
    """

    max_abs_diff: float = 0.0
    max_rel_diff: float = 0.0
    required_atol: float = 0.0
    max_ulp: float = 0.0
    cosine: float = 1.0

    def worst(self, other: OutputErrors) -> OutputErrors:
        """The worse value of the two in each measure; NaN is the worst."""
        return OutputErrors(
            float(np.maximum(self.max_abs_diff, other.max_abs_diff)),
            float(np.maximum(self.max_rel_diff, other.max_rel_diff)),
            float(np.maximum(self.required_atol, other.required_atol)),
            float(np.maximum(self.max_ulp, other.max_ulp)),
            float(np.minimum(self.cosine, other.cosine)),
        )


def differences(answer: Array, reference: Array) -> OutputErrors:
    """Compare an answer with its reference."""
    valid = np.isfinite(reference) & np.isfinite(answer)
    mine, theirs = wide(answer[valid]), wide(reference[valid])
    distance, size = elementwise_distance(answer, reference), np.abs(np.where(np.isfinite(reference), wide(reference), 0))
    nonzero = size > 0
    norms = float(np.linalg.norm(mine) * np.linalg.norm(theirs))
    return OutputErrors(
        max_abs_diff=float(distance.max(initial=0)),
        max_rel_diff=float((distance[nonzero] / size[nonzero]).max(initial=0)),
        required_atol=float((distance - _RTOL * size).max(initial=0)),
        max_ulp=float(ulps(mine, theirs).max(initial=0)),
        cosine=float(mine.ravel() @ theirs.ravel()) / norms if norms else float(not (mine - theirs).any()),
    )


def elementwise_distance(one: Array, two: Array) -> Array:
    """Elementwise |one - two|: 0 for two NaN or the same infinity, infinite if only one is NaN or infinite or infinities differ in sign.

    Different integers have a distance of at least 1, also if float64 rounds them to the same value. Raises ValueError for
    different shapes.
    """
    if one.shape != two.shape:
        raise ValueError(f"arrays of shapes {list(one.shape)} and {list(two.shape)} cannot be compared element by element")
    with np.errstate(invalid="ignore", over="ignore"):
        far: Array = np.abs(wide(one) - wide(two))
    if not np.isfinite(far).all():
        same = (one == two) | (np.isnan(wide(one)) & np.isnan(wide(two)))
        far = np.where(same, 0.0, np.nan_to_num(far, nan=np.inf, posinf=np.inf))
    if one.dtype.kind in "iu" and two.dtype.kind in "iu":
        far = np.where(one == two, 0.0, np.maximum(far, 1.0))
    return far


def distance(one: Array, two: Array) -> float:
    """max|one - two| of `elementwise_distance`; infinite for different shapes."""
    return float(elementwise_distance(one, two).max(initial=0)) if one.shape == two.shape else math.inf


def relative(answer: Array, truth: Array) -> float:
    """max|answer - truth| over the largest finite |truth|; infinite for different shapes, and for NaN or infinity in only one array."""
    return distance(answer, truth) / max(finite_max([truth]), float(np.finfo(np.float32).tiny))


def worst_relative(answers: Mapping[str, Array], truths: Mapping[str, Array]) -> float:
    """The largest `relative` over all names; infinite if the names differ or there are none."""
    if not truths or answers.keys() != truths.keys():
        return math.inf
    return max(relative(answers[name], truth) for name, truth in truths.items())


def same(one: Array, two: Array, *, tolerance: float) -> bool:
    """Whether two arrays have the same dtype, shape and values; floats may differ by `tolerance` of the largest value."""
    return one.dtype == two.dtype and relative(two, one) <= (tolerance if one.dtype.kind == "f" else 0)


def equal(one: Array, two: Array) -> bool:
    """Whether two arrays have the same shape and values; NaN equals NaN."""
    return distance(one, two) == 0


def expected(truth: Array, reference: Array) -> Array:
    """The expected answer: the truth, or the reference where truth or reference is not finite."""
    return np.where(np.isfinite(truth) & np.isfinite(reference), truth, reference)


def agreement(answer: Array, reference: Array, *, rounding: float) -> float:
    """Share of the reference's variance along its first axis that the answer reproduces, 0 to 1, over the finite values of the reference.

    The variance has a lower bound, so that an error of `rounding` times the reference's size leaves 0.9: a constant has no
    variance to reproduce.
    """
    valid = np.isfinite(reference)
    theirs = np.where(valid, wide(reference), 0)
    residual = float((np.where(valid, wide(answer) - theirs, 0) ** 2).sum())
    mean = theirs.sum(0) / np.maximum(valid.sum(0), 1)
    spread = float((np.where(valid, theirs - mean, 0) ** 2).sum())
    least = 10 * rounding**2 * float((theirs**2).sum())
    return max(0.0, 1 - residual / max(spread, least)) if max(spread, least) else float(not residual)


def slope_and_offset(answer: Array, reference: Array, *, valid: Array, rounding: float) -> tuple[float, float]:
    """Compare size and position of an answer with the reference along their first axis, over the elements that are `valid`.

    Returns the slope of the answer on the reference or its inverse, whichever is smaller, at least 0 (1 for the same size, also if
    the reference varies by no more than `rounding` explains), and the largest distance between the means.
    """
    count = np.maximum(valid.sum(0), 1)
    mine, theirs = (np.where(valid, wide(array), 0) for array in (answer, reference))
    means = mine.sum(0) / count, theirs.sum(0) / count
    offset = float(np.abs(means[0] - means[1]).max(initial=0))
    first, second = np.where(valid, mine - means[0], 0), np.where(valid, theirs - means[1], 0)
    spread = float((second**2).sum())
    if spread <= 10 * rounding**2 * float((theirs**2).sum()):
        return 1.0, offset
    slope = max(0.0, float((first * second).sum()) / spread)
    return min(slope, 1 / slope) if slope else 0.0, offset


def spread_difference(answer: Array, reference: Array, *, rounding: float) -> float:
    """How far the variation of two arrays differs along their first axis, in units of the reference's variance.

    The variance has a lower bound, so that `slope_and_offset` and `agreement` do not treat the difference as rounding.
    """
    valid = np.isfinite(reference) & np.isfinite(answer)
    mine, theirs = (np.where(valid, wide(array), 0) for array in (answer, reference))
    difference = (mine - mine.mean(0)) - (theirs - theirs.mean(0))
    spread = float(((theirs - theirs.mean(0)) ** 2).sum())
    least = 50 * rounding**2 * float((theirs**2).sum())
    return float((difference**2).sum()) / max(spread, least) if max(spread, least) else 0.0


def ulps(mine: Array, theirs: Array) -> Array:
    """The number of float32 values between the elements of two arrays."""
    distances: Array = np.abs(_order(mine) - _order(theirs))
    return distances


def proportion_interval(hits: int, count: int) -> tuple[float, float]:
    """95% interval of a share, exact (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv

    low = betaincinv(hits, count - hits + 1, 0.025) if hits else 0.0
    high = betaincinv(hits + 1, count - hits, 0.975) if hits < count else 1.0
    return float(low), float(high)


def drop_interval(score: Callable[[Array, Array], float], before: Array, after: Array, labels: Array) -> tuple[float, float, float]:
    """How much a score falls from `before` to `after`, with a 95% interval by bootstrap over the rows (the same rows for both).

    Draws without a score of `before` do not count; one in which only `after` has none is an infinite drop. The interval is NaN if the drop
    is not finite.
    """
    random = np.random.default_rng(0)
    drop = float(score(before, labels)) - float(score(after, labels))
    if not math.isfinite(drop):
        return drop, math.nan, math.nan
    draws = np.array(
        [
            (score(before[rows], labels[rows]), score(after[rows], labels[rows]))
            for rows in random.integers(0, len(labels), (_RESAMPLES, len(labels)))
        ]
    )
    counted = draws[np.isfinite(draws[:, 0])]
    with np.errstate(invalid="ignore"):  # between two infinite drops, and where no draw counts, an end of the interval is NaN
        drops = np.where(np.isfinite(counted[:, 1]), counted[:, 0] - counted[:, 1], np.inf)
        low, high = np.percentile(drops, [2.5, 97.5]) if len(drops) else (math.nan, math.nan)
    return drop, float(low), float(high)


def finite_max(arrays: Sequence[Array]) -> float:
    """The largest absolute finite value of several arrays; 0 if there is none."""
    return max((float(np.abs(wide(array)[np.isfinite(array)]).max(initial=0)) for array in arrays), default=0.0)


def roughly_equal(array: Array, other: Array) -> bool:
    """Whether two arrays have the same shape and differ by at most 1% of their size, which rounding in any precision may explain."""
    return relative(other, array) <= _PLAINLY


def wide(array: Array) -> Array:
    return array.astype(np.float64)


def _order(values: Array) -> Array:
    """Map float32 values to integers, so that neighbouring values differ by one."""
    bits = values.astype(np.float32).view(np.int32).astype(np.int64)
    order: Array = np.where(bits < 0, -(2**31) - bits, bits)
    return order
