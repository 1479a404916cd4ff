"""Multilabel: each class whose logit is positive, which is a probability above one half; any number of them for a row."""

from __future__ import annotations

import json
from collections.abc import Sequence

from paddleship.shipped.computing.task_kinds.registration import Array, Decision


def _decide(output: Array) -> Array | None:
    return output > 0 if output.ndim > 1 else None


def names(decisions: Array, classes: Sequence[str]) -> list[str]:
    """The names of each row as a JSON list, in the order of data.classes: a name may hold any character."""
    return [json.dumps([name for name, chosen in zip(classes, row, strict=True) if chosen], ensure_ascii=False) for row in decisions]


DECISION = Decision("multilabel", labels="lists of classes", decide=_decide, names=names, joint=True, scored=("above",), reads="logits")
