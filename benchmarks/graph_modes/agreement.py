"""Check that a mode computes the same as Paddle eager: answers at the first weights, and losses of the first steps.

Both are compared with the float64 truth, in units of eager float32's own error. A loss is a single number and may be right by chance,
so its unit is the largest error of several eager runs with different orders of rows within a batch, and at least EPSILON of its size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddleship.numerics import differences
from paddleship.reports import figures

EPSILON = 1e-6


@dataclass(frozen=True)
class Agreement:
    """The two noise ratios; `reason` says why a mode is not timed, and is empty if it is."""

    answer_noise: float
    loss_noise: float | None
    reason: str = ""


def judge(
    found: Mapping[str, Any], reference: Mapping[str, Any], truth: Mapping[str, Any], *, reordered: Sequence[Sequence[float]], limit: float
) -> Agreement:
    """`found`, `reference` and `truth` hold `answer` and `losses`; `reordered` holds the losses of the other eager runs.

    A mode that does not train has no losses.
    """
    answer = noise_ratio([found["answer"]], [[reference["answer"]]], [truth["answer"]])
    loss = noise_ratio(found["losses"], [reference["losses"], *reordered], truth["losses"]) if found["losses"] else None
    wrong = [
        f"the error of its {what} is {figures.beside(ratio, limit)} × eager's own (limit {figures.limit(limit)})"
        for what, ratio in (("answers", answer), ("first losses", loss))
        if ratio is not None and not ratio <= limit
    ]
    reason = f"not timed, because it does not compute the same network: {' and '.join(wrong)}" if wrong else ""
    return Agreement(answer, loss, reason)


def noise_ratio(found: Sequence[Any], references: Sequence[Sequence[Any]], truth: Sequence[Any]) -> float:
    """The largest error over all steps, in units of the references' largest error so far, because errors grow with steps.

    Infinite if nothing can be compared: the truth has no finite number, or references are NaN where the truth is not.
    """
    worst, own = 0.0, float(np.finfo(np.float64).tiny)
    for place, exact in enumerate(np.asarray(value, np.float64) for value in truth):
        own = max(own, EPSILON * differences.finite_max([exact]), *(_distance(reference[place], exact) for reference in references))
        if not np.isfinite(exact).any() or not np.isfinite(own):
            return float("inf")
        worst = max(worst, _distance(found[place], exact) / own)
    return worst


def _distance(value: Any, exact: differences.Array) -> float:
    """The distance of two losses, which modes return with one axis or none."""
    array = np.asarray(value, np.float64)
    return differences.distance(array.reshape(exact.shape), exact) if array.size == exact.size else float("inf")
