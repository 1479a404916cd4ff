"""Multilabel for a model that ends with its own sigmoid: as multilabel, with the scores moved so that one half becomes zero."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from paddleship.data.task_kinds.multilabel import TASK_KIND as MULTILABEL
from paddleship.data.task_kinds.registration import Answering, LinearModel, TaskKind
from paddleship.shipped.computing.task_kinds.multilabel_probabilities import DECISION, HALF
from paddleship.shipped.computing.task_kinds.registration import Array

T = TypeVar("T")


def _moved(function: Callable[..., T]) -> Callable[..., T]:
    """A function of the outputs of a model with logits, for outputs that are probabilities."""
    return lambda outputs, *more: function(outputs - HALF, *more)


def _loss(output: Any, labels: Any) -> Any:
    from paddle.nn import functional

    return functional.binary_cross_entropy(output, labels.astype(output.dtype))


def _linear(kind: TaskKind) -> LinearModel | None:
    if (linear := kind.linear) is None:
        return None

    def fit(features: Any, labels: Array) -> Answering:
        answer = linear.fit(features, labels)
        return lambda asked: answer(asked) + HALF

    return LinearModel(fit, linear.size)


def _margin(eager: Array, other: Array) -> float:
    return MULTILABEL.margin(eager - HALF, other - HALF)


_score = MULTILABEL.score

TASK_KIND: TaskKind = replace(
    MULTILABEL,
    decision=DECISION,
    loss=_loss,
    score=replace(_score, of=_moved(_score.of), shares=None if _score.shares is None else _moved(_score.shares)),
    further={name: _moved(of) for name, of in MULTILABEL.further.items()},
    class_weights=None,
    linear=_linear(MULTILABEL),
    per_class=_moved(MULTILABEL.per_class),
    findings=_moved(MULTILABEL.findings),
    margin=_margin,
)
