"""Text that a model reads step by step (CTC): labels are texts, stored as the scores of their characters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from paddleship.data.row_faults import RowFault, where
from paddleship.data.task_kinds import skill
from paddleship.data.task_kinds.positions import PADDING, margin
from paddleship.data.task_kinds.registration import Labels, Score, TaskKind, UntrainedOutput
from paddleship.errors import DataError, ModelError
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.task_kinds.ctc import BLANK, DECISION
from paddleship.shipped.computing.task_kinds.registration import Array

_TOLERANCE = 0.005  # characters that the rounding of another process or device may change


class TextLabels:
    """Reads labels that are texts."""

    def __init__(self, column: str, classes: list[str]) -> None:
        if not classes:
            raise DataError("data.classes is empty, and ctc needs the characters that a text may have: name them there")
        if long := next((character for character in classes if len(character) != 1), None):
            raise DataError(f"data.classes holds {long!r}, and ctc reads characters: name single ones")
        self._column = column
        self._scores = {character: index + 1 for index, character in enumerate(classes)}

    def read(self, number: int, value: Any) -> Array:
        """The characters of the text of row `number`, as the scores that they have in a step. Raises RowFault."""
        if not isinstance(value, str):
            raise RowFault(f"{where(number, self._column, value)}, and ctc needs a text", "let data.reader return str")
        if strange := next((character for character in value if character not in self._scores), None):
            reason = f"{where(number, self._column, value)}, with {strange!r}, which is not one of data.classes"
            raise RowFault(reason, "add the character, or return None as its label to drop the row")
        return np.array([self._scores[character] for character in value], np.int64)


def _loss(output: Any, labels: Any) -> Any:
    import paddle
    from paddle.nn import functional

    known = labels != PADDING
    lengths = known.astype("int64").sum(axis=1)
    if bool((lengths == 0).any()):
        return _loss_with_empty(output, labels, lengths)
    count = paddle.full([output.shape[0]], output.shape[1], "int64")
    targets = paddle.where(known, labels, paddle.full_like(labels, BLANK)).astype("int32")
    return functional.ctc_loss(output.transpose([1, 0, 2]), targets, count, lengths, blank=BLANK)


def _loss_with_empty(output: Any, labels: Any, lengths: Any) -> Any:
    """The mean over rows of which some have an empty text: for them, that of the blank in every step.

    Paddle's own loss divides by the length of a text, and ends the process if all texts of a batch are empty (3.3.1).
    """
    from paddle.nn import functional

    empty = (lengths == 0).nonzero().flatten()
    total = -functional.log_softmax(output.index_select(empty), axis=-1)[:, :, BLANK].sum()
    if len(empty) < len(lengths):
        others = (lengths > 0).nonzero().flatten()
        total += _loss(output.index_select(others), labels.index_select(others)) * len(others)
    return total / len(lengths)


def edits(one: Sequence[int], other: Sequence[int]) -> int:
    """The fewest insertions, deletions and replacements between two sequences (Levenshtein's distance)."""
    targets, row = np.asarray(other), np.arange(len(other) + 1)
    for index, item in enumerate(one):
        best = np.minimum(row[:-1] + (targets != item), row[1:] + 1)
        row = np.minimum.accumulate(np.concatenate([[index + 1], best]) - np.arange(len(row))) + np.arange(len(row))
    return int(row[-1])


def _rows(outputs: Array, labels: Array) -> Array:
    """The characters less the edits, and the characters, of each row."""
    decided = DECISION.decide(outputs)
    texts = zip(decided if decided is not None else (), labels, strict=True)
    lengths = [(edits(row[row > BLANK], label[label != PADDING]), int((label != PADDING).sum())) for row, label in texts]
    return np.array([(length - distance, length) for distance, length in lengths])


def _character_accuracy(outputs: Array, labels: Array) -> float:
    """1 less the edits for each character of the labels (1 - CER)."""
    hits, count = _rows(outputs, labels).sum(0)
    return float(hits / count) if count else math.nan


def _exact(outputs: Array, labels: Array, _classes: Sequence[str]) -> float:
    """Share of the rows whose whole text is right."""
    hits, lengths = _rows(outputs, labels).T
    return float((hits == lengths).mean())


def _fits(outputs: Array, labels: Array) -> bool:
    return outputs.ndim == 3 and labels.ndim == 2


def _check_output(output: UntrainedOutput) -> list[Finding]:
    scores = len(output.classes) + 1
    if len(output.shape) == 3 and output.shape[0] == output.rows and output.shape[2] == scores:
        return []
    raise ModelError(
        f"the first output {output.name!r} has the shape {list(output.shape)} for a batch of {output.rows} rows, and data.classes names "
        f"{len(output.classes)} characters: let forward return [{output.rows}, steps, {scores}], a score for the blank and for each "
        "character, as its first output (model.kwargs, model.factory), or correct data.classes"
    )


def _steps(labels: Array) -> Array:
    """The fewest steps in which each text can be read: one for each character, and one between two of the same."""
    known = labels != PADDING
    between = (labels[:, 1:] == labels[:, :-1]) & known[:, 1:]
    steps: Array = known.sum(1) + between.sum(1)
    return steps


def _findings(outputs: Array, labels: Array, _classes: Sequence[str]) -> list[Finding]:
    if not _fits(outputs, labels):
        return []
    return [*_too_long(outputs, labels), *_against_nothing(outputs, labels)]


def _too_long(outputs: Array, labels: Array) -> list[Finding]:
    """A warning about texts that no answer can be, whose loss is 0."""
    needed = _steps(labels)
    count = int((needed > outputs.shape[1]).sum())
    if not count:
        return []
    message = (
        f"{count:,} of {len(labels):,} test rows have texts that need up to {int(needed.max())} steps, and the model gives "
        f"{outputs.shape[1]}: they cannot be read, and count as 0 in the loss"
    )
    return [Finding("short-output", "warning", message, "let forward return more steps, or drop these rows in data.reader")]


def _against_nothing(outputs: Array, labels: Array) -> list[Finding]:
    hits, lengths = _rows(outputs, labels).T
    message = f"{hits.sum() / lengths.sum():.4f} of the characters of {len(labels):,} test rows are right, and 0 if nothing is read"
    return skill.findings(message, hits / lengths.mean())


def _facts(labels: Array, _classes: Sequence[str]) -> dict[str, Any]:
    return {"longest_text": int((labels != PADDING).sum(1).max())}


TASK_KIND = TaskKind(
    decision=DECISION,
    labels=Labels(TextLabels, np.int64, contradict=True, empty=True, facts=_facts, plotted=lambda labels: (labels != PADDING).sum(1)),
    loss=_loss,
    score=Score(
        "character_accuracy",
        "character accuracy",
        _character_accuracy,
        tolerance=lambda _rows, _recorded: _TOLERANCE,
        parts=_rows,
        highest=1,
    ),
    further={"exact_texts": _exact},
    fits=_fits,
    check_output=_check_output,
    findings=_findings,
    margin=margin,
)
