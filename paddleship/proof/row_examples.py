"""Rows that show how a candidate answers: those whose decision is not eager's, and the one with the largest error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paddleship.data import row_text
from paddleship.data.dataset import Rows
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.data.task_kinds.registration import TaskKind
from paddleship.numerics import differences
from paddleship.proof.evidence import ROWS, Evidence, by_row
from paddleship.shipped.computing.spec import Arrays

_MOST = 5  # rows whose decision changed


def changed_decisions(evidence: Evidence, answers: Sequence[Arrays], rows: Rows, classes: Sequence[str]) -> list[dict[str, Any]]:
    """The first rows whose decision differs: the `row`, its `label` if there is one, and what `eager` and the `candidate` decide."""
    (before, numbers), (after, _) = (by_row(evidence, one) for one in (evidence.reference, answers))
    if evidence.task is None or before.shape != after.shape:
        return []
    kind = task_kinds.get(evidence.task)
    eager, candidate = kind.decision.decide(before), kind.decision.decide(after)
    if eager is None or candidate is None:
        return []
    examples = []
    for number, first, second in zip(numbers, eager, candidate, strict=True):
        length = evidence.lengths.get(number) if kind.per_position else None
        if np.any(np.asarray(first != second)[..., :length] if length is not None else first != second):
            label = _text(kind, rows.labels[number], classes, length) if rows.labelled else ""
            texts = [_text(kind, decision, classes, length) for decision in (first, second)]
            examples.append({"row": row_text.of_row(rows, number), "label": label, "eager": texts[0], "candidate": texts[1]})
        if len(examples) == _MOST:
            break
    return examples


def _text(kind: TaskKind, decision: Any, classes: Sequence[str], length: int | None) -> str:
    """A decision or a label, by the names of its classes where one text has them."""
    if kind.decision.names is not None and not kind.per_position:
        return row_text.of_value(kind.decision.names(np.asarray(decision)[None], classes)[0])
    return row_text.of_value(np.asarray(decision)[:length] if np.ndim(decision) else decision)


def worst(evidence: Evidence, answers: Sequence[Arrays], rows: Rows) -> dict[str, Any] | None:
    """The row with the largest error of any output in units of eager's own: the `row`, the `error`, the `output` and the `case`."""
    found: tuple[float, dict[str, Any]] | None = None
    for index in evidence.groups.get(ROWS, ()):
        case = evidence.cases[index]
        for output, noise in evidence.noise[ROWS].items():
            distance = differences.elementwise_distance(answers[index][output], evidence.truth[index][output])
            if not noise.largest or not distance.ndim or len(distance) != len(case.rows):
                continue
            errors = distance.reshape(len(distance), -1).max(1) / noise.largest
            at = int(errors.argmax())
            if found is None or errors[at] > found[0]:
                row = row_text.of_row(rows, case.rows[at])
                found = float(errors[at]), {"row": row, "error": float(errors[at]), "output": output, "case": case.name}
    return found[1] if found else None
