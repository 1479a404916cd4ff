"""Multilabel for a model that ends with its own sigmoid: each class whose probability is above one half; any number of them for a row."""

from __future__ import annotations

from paddleship.shipped.computing.task_kinds.multilabel import names
from paddleship.shipped.computing.task_kinds.registration import Array, Decision

HALF = 0.5


def _decide(output: Array) -> Array | None:
    return output > HALF if output.ndim > 1 else None


DECISION = Decision(
    "multilabel_probabilities", labels="lists of classes", decide=_decide, names=names, joint=True, scored=("above",), reads="probabilities"
)
