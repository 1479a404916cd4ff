"""The part of a report that says what the score of a trained model is worth."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.data.dataset import Rows
from paddleship.data.task_kinds import score_form
from paddleship.data.task_kinds.class_tables import ClassTable
from paddleship.data.task_kinds.registration import TaskKind
from paddleship.model.training import Evaluation, Split
from paddleship.plots import classes as charts
from paddleship.reports import row_scores
from paddleship.reports.figures import share
from paddleship.reports.finding import Finding
from paddleship.scoring import baselines
from paddleship.shipped.computing.files import new_folder
from paddleship.shipped.computing.preprocess import Preprocess

Array = np.ndarray[Any, Any]
_FOLDER = "train/classes"  # below the reports
_MATRIX = 30  # classes of the largest confusion matrix that is drawn; for more, the most frequent wrong decisions are
_PAIRS = 100  # wrong decisions in the report


@dataclass(frozen=True)
class Scored:
    """The score as the beginning of a headline, and what the report says of it."""

    headline: str
    metrics: Mapping[str, float]
    findings: Sequence[Finding]
    facts: Mapping[str, Any]
    pictures: Sequence[str] = field(default_factory=list)


def judge(
    kind: TaskKind,
    evaluations: Mapping[str, Evaluation],
    *,
    preprocess: Preprocess,
    rows: Mapping[str, Rows],
    splits: Mapping[str, Split],
    classes: Sequence[str],
    reports: Path,
) -> Scored:
    """Judge the outputs for the held-out parts: against the baselines, and class by class, which is also written to files."""
    if not splits["test"].labelled:
        return Scored("no score, because the rows have no labels,", {}, [], {}, _write(None, reports))
    outputs, labels = evaluations["test"].outputs, splits["test"].labels
    compared = baselines.compare(kind, {part: one.outputs for part, one in evaluations.items()}, preprocess, rows, splits)
    table = kind.per_class(outputs, labels, classes) if kind.fits(outputs, labels) else None
    further = {f"test_{name}": of(outputs, labels, classes) for name, of in kind.further.items()}
    name = kind.score.name
    scores = {f"{part}_{name}": one.score for part, one in evaluations.items()}
    losses = {f"{part}_loss": one.loss for part, one in evaluations.items()}
    return Scored(
        f"test {name} {share(scores[f'test_{name}'])}{compared}",
        {**scores, **losses, **compared.metrics, **further, **({"test_macro_f1": table.macro_f1} if table else {})},
        [*score_form.findings(kind.decision, [outputs], "warning"), *kind.findings(outputs, labels, classes), *compared.findings],
        {
            **compared.facts,
            "row_scores": _row_scores(kind, evaluations["validation"].outputs, splits["validation"].labels),
            **(table.to_dict(most_pairs=_PAIRS) if table else {}),
        },
        _write(table, reports),
    )


def _row_scores(kind: TaskKind, outputs: Array, labels: Array) -> str:
    """What each validation row adds to the score, packed, so that runs can be compared row by row; empty for a score that is no sum."""
    contributions = kind.score.contributions(outputs, labels) if kind.fits(outputs, labels) else None
    return "" if contributions is None else row_scores.pack(contributions)


def _write(table: ClassTable | None, reports: Path) -> list[str]:
    """Write the table, and a picture if decisions can be confused. Returns the picture's path."""
    with new_folder(reports / _FOLDER) as folder:
        values = table.to_dict(most_pairs=len(table.pairs)) if table else {}
        (folder / "classes.json").write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        if table is None or not table.pairs:
            return []
        if len(table.rows) <= _MATRIX:
            charts.matrix(table.matrix(), [row.name for row in table.rows], folder, "confusion.png")
        elif confused := table.confused(_PAIRS):
            charts.pairs(confused, folder, "confusion.png")
        else:
            return []
    return [f"{_FOLDER}/confusion.png"]
