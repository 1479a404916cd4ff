"""Tagging: one tag for each position of a row: for each character of a text, for each step of a sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paddleship.data.class_labels import ClassLabels
from paddleship.data.row_faults import RowFault, where
from paddleship.data.task_kinds import class_scores, class_tables, class_weights, skill
from paddleship.data.task_kinds.class_tables import ClassTable
from paddleship.data.task_kinds.positions import PADDING, at, fit, margin
from paddleship.data.task_kinds.registration import ConstantAnswer, Labels, Score, TaskKind, UntrainedOutput
from paddleship.errors import DataError, ModelError
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.task_kinds.registration import Array
from paddleship.shipped.computing.task_kinds.tagging import DECISION, spans

_ROWS, _SHARE = 2, 0.005  # rows whose tags may depend on the rounding of another process or device


class TagLists:
    """Reads labels that are lists of tags: names of data.classes, or their ids."""

    def __init__(self, column: str, classes: list[str]) -> None:
        if not classes:
            raise DataError("data.classes is empty, and a tagging task needs the names of all tags: name them there")
        self._column, self._names = column, ClassLabels(column, classes)
        self._known: dict[tuple[type, Any], int] = {}

    def read(self, number: int, value: Any) -> Array:
        """The tags of row `number` as ids. Raises RowFault."""
        tags = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(tags, list | tuple):
            advice = "let data.reader return a list of names of data.classes, one for each character or step"
            raise RowFault(f"{where(number, self._column, value)}, and a tagging row needs a list of tags", advice)
        return np.array([self._id(number, tag) for tag in tags], np.int64)

    def _id(self, number: int, tag: Any) -> int:
        if not isinstance(tag, str | int):
            return self._names.read(number, tag)
        key = type(tag), tag
        if key not in self._known:
            self._known[key] = self._names.read(number, tag)
        return self._known[key]


def _loss(output: Any, labels: Any) -> Any:
    """The mean over positions, which Paddle's own mean is not: with a negative ignore_index it divides by padding too (3.3.1)."""
    from paddle.nn import functional

    total = functional.cross_entropy(output, labels, ignore_index=PADDING, reduction="sum")
    return total / (labels != PADDING).astype(output.dtype).sum()


def _right(outputs: Array, labels: Array) -> Array:
    """Right tags and all tags of each row."""
    labels = fit(labels, outputs.shape[1])
    return np.stack([(outputs.argmax(-1) == labels).sum(1), (labels != PADDING).sum(1)], axis=1)


def _accuracy(outputs: Array, labels: Array) -> float:
    """Share of positions whose tag is right."""
    hits, count = _right(outputs, labels).sum(0)
    return float(hits / count)


def _span_f1(outputs: Array, labels: Array, classes: Sequence[str]) -> float:
    """2·TP / (2·TP + FP + FN) over spans of the same tag, start and end; NaN if there is no span."""
    right = total = 0
    for decided, label in zip(outputs.argmax(-1), fit(labels, outputs.shape[1]), strict=True):
        known = label != PADDING
        found, wanted = ({*spans([classes[tag] for tag in tags[known]])} for tags in (decided, label))
        right, total = right + len(found & wanted), total + len(found) + len(wanted)
    return 2 * right / total if total else math.nan


def _fits(outputs: Array, labels: Array) -> bool:
    return outputs.ndim == 3 and labels.ndim == 2 and bool((labels[:, outputs.shape[1] :] == PADDING).all())


def _known(labels: Array) -> Array:
    """The labels of all rows without padding, along one axis."""
    return at(labels, labels)


def _require_two_tags(labels: Array, classes: Sequence[str]) -> None:
    found = np.unique(_known(labels))
    if len(found) < 2:
        raise DataError(f"the training part has one tag only ({classes[int(found[0])]!r}): a tagger needs two; check data.label")


def _absent(parts: Mapping[str, Array], classes: Sequence[str]) -> list[Finding]:
    present = {part: [bool((labels == index).any()) for index in range(len(classes))] for part, labels in parts.items()}
    return class_scores.absent(present, classes)


def _facts(labels: Array, classes: Sequence[str]) -> dict[str, Any]:
    tags = _known(labels)
    return {"class_share": {name: round(float((tags == index).mean()), 4) for index, name in enumerate(classes)}}


def _check_output(output: UntrainedOutput) -> list[Finding]:
    wanted = (output.rows, output.positions, len(output.classes))
    if tuple(output.shape) == wanted:
        return []
    raise ModelError(
        f"the first output {output.name!r} has the shape {list(output.shape)} for a batch of {output.rows} rows, padded to "
        f"{output.positions} positions, and data.classes names {len(output.classes)} tags: let forward return {list(wanted)}, a logit for "
        "each tag of each position, as its first output (model.kwargs, model.factory), or correct data.classes"
    )


def _majority(labels: Array) -> tuple[int, float]:
    """The most frequent tag, and its share of the positions."""
    tags, counts = np.unique(_known(labels), return_counts=True)
    return int(tags[counts.argmax()]), float(counts.max() / counts.sum())


def _constant(training: Array, outputs: Array, labels: Array) -> ConstantAnswer | None:
    if not _fits(outputs, labels):
        return None
    answer = np.arange(outputs.shape[-1]) == _majority(training)[0]
    return ConstantAnswer("majority tag", np.broadcast_to(answer, outputs.shape))


def _findings(outputs: Array, labels: Array, classes: Sequence[str]) -> list[Finding]:
    return [*_against_majority(outputs, labels, classes), *_unchosen(outputs, labels, classes)] if _fits(outputs, labels) else []


def _against_majority(outputs: Array, labels: Array, classes: Sequence[str]) -> list[Finding]:
    """By row, because the tags of one row depend on each other; the mean of the gains is the gain of the score."""
    tag, share = _majority(labels)
    right, count = _right(outputs, labels).T
    constant = f"always answering {class_scores.name(tag, classes)} gives {share:.4f}"
    message = f"the tag of {right.sum() / count.sum():.4f} of the positions of {len(labels):,} test rows is right, and {constant}"
    return skill.findings(message, (right - (labels == tag).sum(1)) / count.mean())


def _unchosen(outputs: Array, labels: Array, classes: Sequence[str]) -> list[Finding]:
    missed = np.setdiff1d(_known(labels), at(outputs.argmax(-1), labels))
    counts = {int(tag): int((labels == tag).any(1).sum()) for tag in missed}
    return class_scores.unchosen(counts, len(labels), classes, shares=class_scores.shares(_known(labels)))


def _per_class(outputs: Array, labels: Array, classes: Sequence[str]) -> ClassTable:
    return class_tables.of_classes(at(outputs.argmax(-1), labels), _known(labels), outputs.shape[-1], classes)


TASK_KIND = TaskKind(
    decision=DECISION,
    labels=Labels(TagLists, np.int64, contradict=True, require=_require_two_tags, findings=_absent, facts=_facts, plotted=_known),
    loss=_loss,
    score=Score(
        "tag_accuracy",
        "tag accuracy",
        _accuracy,
        tolerance=lambda rows, _recorded: max(_ROWS / rows, _SHARE),
        parts=_right,
        lowest=0,
        highest=1,
    ),
    further={"span_f1": _span_f1},
    fits=_fits,
    check_output=_check_output,
    class_weights=class_weights.TAGS,
    constant=_constant,
    per_class=_per_class,
    findings=_findings,
    margin=margin,
)
