"""Multilabel: any number of the classes for each row, stored as a 0 or 1 for each class."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paddleship.data.class_labels import ClassLabels
from paddleship.data.row_faults import RowFault, where
from paddleship.data.task_kinds import class_scores, class_tables, class_weights, linear, skill
from paddleship.data.task_kinds.registration import ConstantAnswer, Labels, Score, TaskKind, UntrainedOutput, of_ratio
from paddleship.errors import DataError
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.task_kinds.multilabel import DECISION
from paddleship.shipped.computing.task_kinds.registration import Array

_ROWS, _SHARE = 2, 0.005  # rows whose decisions may depend on the rounding of another process or device


class NameLists:
    """Reads labels that are lists of class names. Numbers are refused: [0, 1] may be ids, or a 0 or 1 for each class."""

    def __init__(self, column: str, classes: list[str]) -> None:
        if not classes:
            raise DataError("data.classes is empty, and a multilabel task needs the names of all labels: name them there")
        self._column, self._count, self._names = column, len(classes), ClassLabels(column, classes)

    def read(self, number: int, value: Any) -> Array:
        """The label of row `number`, as a 0 or 1 for each class. Raises RowFault."""
        names = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(name, str) for name in names):
            advice = "let data.reader return a list of names of data.classes, which is empty for a row without labels"
            raise RowFault(f"{where(number, self._column, value)}, and a multilabel row needs a list of names", advice)
        label = np.zeros(self._count, np.int64)
        label[[self._names.read(number, name) for name in sorted(names)]] = 1
        return label


def _loss(output: Any, labels: Any) -> Any:
    from paddle.nn import functional

    return functional.binary_cross_entropy_with_logits(output, labels.astype(output.dtype))


def _micro_f1(outputs: Array, labels: Array) -> float:
    """2·TP / (2·TP + FP + FN) over all labels of all rows; NaN if no row has a label and none is answered."""
    chosen, wanted = outputs > 0, labels > 0
    total = int(chosen.sum() + wanted.sum())
    return 2 * int((chosen & wanted).sum()) / total if total else math.nan


def _shares(outputs: Array, labels: Array) -> Array:
    chosen, wanted = outputs > 0, labels > 0
    return of_ratio(np.stack([2 * (chosen & wanted).sum(-1), chosen.sum(-1) + wanted.sum(-1)], axis=1))


def _exact_match(outputs: Array, labels: Array, _classes: Sequence[str]) -> float:
    """Share of rows for which all labels are right."""
    return float(((outputs > 0) == (labels > 0)).all(-1).mean())


def _fits(outputs: Array, labels: Array) -> bool:
    return bool(outputs.shape == labels.shape)


def _require_labels(labels: Array, _classes: Sequence[str]) -> None:
    if not (labels.min(0) != labels.max(0)).any():
        raise DataError("all rows of the training part have the same labels: a multilabel model needs rows that differ; check data.label")


def _absent(parts: Mapping[str, Array], classes: Sequence[str]) -> list[Finding]:
    present = {part: [bool(column.any()) for column in labels.T] for part, labels in parts.items()}
    return class_scores.absent(present, classes)


def _facts(labels: Array, classes: Sequence[str]) -> dict[str, Any]:
    return {"class_share": {name: round(float(share), 4) for name, share in zip(classes, labels.mean(0), strict=True)}}


def _check_output(output: UntrainedOutput) -> list[Finding]:
    largest = len(output.classes) - 1
    return class_scores.check(output.name, output.shape, rows=output.rows, classes=output.classes, largest_id=largest, own_loss=False)


def _constant(training: Array, outputs: Array, labels: Array) -> ConstantAnswer | None:
    """The one set of labels with the best score, which holds the most frequent ones."""
    if not _fits(outputs, labels) or not training.any():
        return None
    order = np.argsort(-training.sum(0), kind="stable")
    counts = training.sum(0)[order]
    scores = 2 * counts.cumsum() / (np.arange(1, len(counts) + 1) * len(training) + counts.sum())
    answer = np.full(len(counts), -1.0)
    answer[order[: int(scores.argmax()) + 1]] = 1
    return ConstantAnswer("constant labels", np.broadcast_to(answer, labels.shape))


def _findings(outputs: Array, labels: Array, classes: Sequence[str]) -> list[Finding]:
    return [*_against_constant(outputs, labels), *_unchosen(outputs, labels, classes)] if _fits(outputs, labels) else []


def _against_constant(outputs: Array, labels: Array) -> list[Finding]:
    """By the share of right decisions, because F1 has no value for a single row."""
    right = ((outputs > 0) == (labels > 0)).mean(1)
    constant = ((labels.mean(0) > 0.5) == (labels > 0)).mean(1)
    rows = f"of the decisions on the {len(labels):,} test rows"
    message = f"{right.mean():.4f} {rows} are right, and {constant.mean():.4f} with the same labels for every row"
    return skill.findings(message, right - constant)


def _unchosen(outputs: Array, labels: Array, classes: Sequence[str]) -> list[Finding]:
    missed = np.flatnonzero(labels.any(0) & ~(outputs > 0).any(0))
    counts = {int(index): int(labels[:, index].sum()) for index in missed}
    return class_scores.unchosen(counts, len(labels), classes, shares=dict(enumerate(labels.mean(0).tolist())))


def _margin(eager: Array, other: Array) -> float:
    return float(np.abs(eager[(eager > 0) != (other > 0)]).max(initial=0))


TASK_KIND = TaskKind(
    decision=DECISION,
    labels=Labels(
        NameLists,
        np.int64,
        contradict=True,
        require=_require_labels,
        findings=_absent,
        facts=_facts,
        plotted=lambda labels: np.nonzero(labels)[1],
    ),
    loss=_loss,
    score=Score(
        "micro_f1", "micro F1", _micro_f1, tolerance=lambda rows, _recorded: max(_ROWS / rows, _SHARE), shares=_shares, lowest=0, highest=1
    ),
    further={"exact_match": _exact_match},
    fits=_fits,
    check_output=_check_output,
    class_weights=class_weights.LABELS,
    constant=_constant,
    linear=linear.LABELS,
    per_class=lambda outputs, labels, classes: class_tables.of_sets(outputs > 0, labels > 0, classes),
    findings=_findings,
    margin=_margin,
)
