"""Classification: one class for each row, or for each part of a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paddleship.data.class_labels import ClassLabels
from paddleship.data.task_kinds import class_scores, class_tables, class_weights, linear, skill
from paddleship.data.task_kinds.class_tables import ClassTable
from paddleship.data.task_kinds.registration import ConstantAnswer, Labels, Score, TaskKind, UntrainedOutput
from paddleship.errors import DataError
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.task_kinds.classification import DECISION
from paddleship.shipped.computing.task_kinds.registration import Array

_ROWS, _SHARE = 2, 0.005  # rows whose decision may depend on the rounding of another process or device


def _loss(output: Any, labels: Any) -> Any:
    from paddle.nn import functional

    return functional.cross_entropy(output, labels)


def _accuracy(outputs: Array, labels: Array) -> float:
    """Share of rows whose label has the largest score."""
    return float((outputs.argmax(-1) == labels).mean())


def _shares(outputs: Array, labels: Array) -> Array:
    right: Array = (outputs.argmax(-1) == labels).reshape(len(labels), -1).mean(1) / len(labels)
    return right


def _require_two_classes(labels: Array, classes: Sequence[str]) -> None:
    if len(np.unique(labels)) < 2:
        found = repr(classes[labels[0]]) if classes else f"label {labels[0]}"
        raise DataError(f"the training part has one class only ({found}): a classifier needs two; check data.label")


def _absent(parts: Mapping[str, Array], classes: Sequence[str]) -> list[Finding]:
    present = {part: [bool((labels == index).any()) for index in range(len(classes))] for part, labels in parts.items()}
    return class_scores.absent(present, classes)


def _facts(labels: Array, classes: Sequence[str]) -> dict[str, Any]:
    names = classes or [str(label) for label in np.unique(labels)]
    return {"class_share": {name: round(float((labels == index).mean()), 4) for index, name in enumerate(names)}}


def _check_output(output: UntrainedOutput) -> list[Finding]:
    largest = max((int(part.max()) for part in output.labels), default=0)
    return class_scores.check(
        output.name, output.shape, rows=output.rows, classes=output.classes, largest_id=largest, own_loss=output.own_loss
    )


def _chooses(outputs: Array) -> bool:
    """Whether the outputs hold one score for each class, so that the model chooses one."""
    return outputs.ndim == 2 and outputs.shape[1] > 1


def _constant(training: Array, outputs: Array, _labels: Array) -> ConstantAnswer | None:
    if not _chooses(outputs):
        return None
    return ConstantAnswer("largest class", linear.one_hot(np.full(len(outputs), _largest_class(training)[0]), outputs.shape[1]))


def _findings(outputs: Array, labels: Array, classes: Sequence[str]) -> list[Finding]:
    return [*_against_largest(outputs, labels, classes), *_unchosen(outputs, labels, classes)] if _chooses(outputs) else []


def _against_largest(outputs: Array, labels: Array, classes: Sequence[str]) -> list[Finding]:
    largest, share = _largest_class(labels)
    right = outputs.argmax(1) == labels
    constant = f"always answering {class_scores.name(largest, classes)} gives {share:.4f}"
    message = f"the accuracy on the {len(labels):,} test rows is {right.mean():.4f}, and {constant}"
    return skill.findings(message, right.astype(np.float64) - (labels == largest))


def _unchosen(outputs: Array, labels: Array, classes: Sequence[str]) -> list[Finding]:
    counts = {int(one): int((labels == one).sum()) for one in np.setdiff1d(labels, outputs.argmax(1))}
    return class_scores.unchosen(counts, len(labels), classes, shares=class_scores.shares(labels))


def _per_class(outputs: Array, labels: Array, classes: Sequence[str]) -> ClassTable | None:
    return class_tables.of_classes(outputs.argmax(1), labels, outputs.shape[1], classes) if _chooses(outputs) else None


def _largest_class(labels: Array) -> tuple[int, float]:
    """The class that most rows have, and its share of the rows."""
    identities, counts = np.unique(labels, return_counts=True)
    index = int(counts.argmax())
    return int(identities[index]), float(counts[index] / counts.sum())


def _margin(eager: Array, other: Array) -> float:
    return float(eager.max() - eager[int(other.argmax())])


TASK_KIND = TaskKind(
    decision=DECISION,
    labels=Labels(ClassLabels, np.int64, contradict=True, require=_require_two_classes, findings=_absent, facts=_facts),
    loss=_loss,
    score=Score(
        "accuracy",
        "accuracy",
        _accuracy,
        tolerance=lambda rows, _recorded: max(_ROWS / rows, _SHARE),
        share_of_decisions=True,
        shares=_shares,
        lowest=0,
        highest=1,
    ),
    fits=lambda outputs, labels: outputs.ndim == labels.ndim + 1,
    check_output=_check_output,
    class_weights=class_weights.CLASSES,
    constant=_constant,
    linear=linear.CLASSIFIER,
    per_class=_per_class,
    findings=_findings,
    decisive=lambda outputs: outputs.shape[-1:] != (1,),
    margin=_margin,
)
