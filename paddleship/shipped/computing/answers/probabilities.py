"""Probabilities of scores, computed in float64 so that large scores give no infinity, and rounded to seven digits, as a float32 has."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np

from paddleship.errors import CandidateError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.task_kinds.registration import Array

_DIGITS = 7
_EPSILON = float(np.finfo(np.float64).eps)
LOGITS = "logits"  # the alternative is probabilities: the model ends with a softmax or a sigmoid of its own


def softmax(scores: Array) -> Array:
    wide = scores.astype(np.float64)
    powers = np.exp(wide - wide.max(-1, keepdims=True))
    shares: Array = powers / powers.sum(-1, keepdims=True)
    return shares


def sigmoid(scores: Array) -> Array:
    wide = scores.astype(np.float64)
    small = np.exp(-np.abs(wide))
    shares: Array = np.where(wide >= 0, 1, small) / (1 + small)
    return shares


def logit(probability: float) -> float:
    """The score that has this probability."""
    return float(np.log(probability) - np.log1p(-probability))


def rounded(probability: float) -> float:
    return float(f"{float(probability):.{_DIGITS}g}")


def cutoff(threshold: float) -> float:
    """The smallest probability above a threshold that is also above it when it is `rounded`: float32 has no 0.4, but 0.4000000059."""
    digits = Context(prec=_DIGITS, rounding=ROUND_FLOOR)
    below = digits.create_decimal(str(threshold))
    middle = (below + digits.next_plus(below)) / 2
    exact = float(max(middle, Decimal(str(threshold))))
    return min(exact * (1 + 4 * _EPSILON), 1 - _EPSILON / 2)  # above it by what a sigmoid and its inverse round, and below 1


def are_logits(settings: Mapping[str, Any]) -> bool:
    return bool(settings.get("scores", LOGITS) == LOGITS)


def classes(candidate: Candidate, name: str) -> tuple[str, ...]:
    """The names of the classes of the first output. Raises CandidateError if it has no score for each of them."""
    if candidate.labels:
        return candidate.labels
    shape = list(candidate.outputs[0].shape) if candidate.outputs else []
    raise CandidateError(
        f"answer.{name} needs a first output with one score for each class, and no output called 'label' (data.classes names "
        f"{len(candidate.classes)}, the first output is {shape}): name the classes, or correct the model"
    )
