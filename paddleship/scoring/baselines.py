"""A trained model against its baselines, on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from paddleship.data.dataset import Rows
from paddleship.data.task_kinds.registration import TaskKind
from paddleship.model.training import Split
from paddleship.numerics import differences
from paddleship.reports.figures import share
from paddleship.reports.finding import Finding
from paddleship.scoring import linear_model
from paddleship.shipped.computing.preprocess import Preprocess

Array = np.ndarray[Any, Any]
_CONSTANT, _LINEAR = "baseline", "linear"  # in the names of metrics


@dataclass(frozen=True)
class Row:
    """A baseline: its score by part, and how much better the model is on the test rows, with the 95% interval of the paired difference."""

    name: str
    title: str
    scores: Mapping[str, float]
    gain: float
    low: float
    high: float
    note: str = ""

    def __str__(self) -> str:
        return f"{self.title} {share(self.scores['test'])}" + (f" {self.note}" if self.note else "")


@dataclass(frozen=True)
class Comparison:
    """The baselines of a model, and why one is missing."""

    score: str
    rows: Sequence[Row] = ()
    notes: Sequence[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f" ({'; '.join(map(str, self.rows))})" if self.rows else ""

    @property
    def metrics(self) -> dict[str, float]:
        metrics = {f"{row.name}_{part}_{self.score}": value for row in self.rows for part, value in row.scores.items()}
        for row in self.rows:
            metrics |= {f"{row.name}_gain": row.gain, f"{row.name}_gain_low": row.low, f"{row.name}_gain_high": row.high}
        return metrics

    @property
    def facts(self) -> dict[str, Any]:
        rows = {row.title: {**row.scores, "gain": row.gain, "low": row.low, "high": row.high, "note": row.note} for row in self.rows}
        return {"baselines": rows, "baseline_notes": [*self.notes]}

    @property
    def findings(self) -> list[Finding]:
        """A warning if the linear model is better; that the constant answer is no worse is a finding of the task kind."""
        return [
            Finding("below-linear", "warning", f"{_told(row, self.score)}", _ADVICE)
            for row in self.rows
            if row.name == _LINEAR and row.high < 0
        ]


_ADVICE = "train longer, or change the model or train.learning_rate; the linear model reads the same rows, and takes seconds"


def compare(
    kind: TaskKind, outputs: Mapping[str, Array], preprocess: Preprocess, rows: Mapping[str, Rows], splits: Mapping[str, Split]
) -> Comparison:
    """Compare the first outputs of a model for the held-out parts. `rows` and `splits` hold these parts and the training part."""
    labels = {part: splits[part].labels for part in outputs}
    if not all(_comparable(kind, outputs[part], labels[part]) for part in outputs):
        return Comparison(kind.score.name, notes=["the first output and the labels give no score to compare"])
    made = []
    constants = {part: kind.constant(splits["train"].labels, outputs[part], labels[part]) for part in outputs}
    if (one := constants["test"]) is not None:
        theirs = {part: constant.outputs for part, constant in constants.items() if constant is not None}
        made.append(_row(kind, _CONSTANT, one.title, outputs, theirs, labels))
    fitted = linear_model.fit(kind, preprocess, rows, splits)
    if fitted.outputs:
        made.append(_row(kind, _LINEAR, "linear model", outputs, fitted.outputs, labels, note=fitted.note))
        shown = f" ({fitted.note})" if fitted.note else ""
        print(f"linear model: {fitted.rows:,} rows in {fitted.seconds:.1f} s{shown}, test {kind.score.name} {made[-1].scores['test']:.4f}")
    elif fitted.note:
        print(f"{fitted.note}: the score is compared with no linear model")
    return Comparison(kind.score.name, made, [fitted.note] if fitted.note else [])


def _comparable(kind: TaskKind, outputs: Array, labels: Array) -> bool:
    return kind.fits(outputs, labels) and kind.decisive(outputs) and bool(np.isfinite(kind.score.of(outputs, labels)))


def _row(
    kind: TaskKind,
    name: str,
    title: str,
    ours: Mapping[str, Array],
    theirs: Mapping[str, Array],
    labels: Mapping[str, Array],
    *,
    note: str = "",
) -> Row:
    scores = {part: float(kind.score.of(outputs, labels[part])) for part, outputs in theirs.items()}
    gain, low, high = _gain(kind, ours["test"], theirs["test"], labels["test"])
    return Row(name, title, scores, gain, low, high, note)


def _gain(kind: TaskKind, ours: Array, theirs: Array, labels: Array) -> tuple[float, float, float]:
    """How much better the score of `ours` is, with its interval. A share of decisions is compared by rows."""
    if not kind.score.share_of_decisions:
        rows = [kind.score.rows(one, labels) for one in (ours, theirs)]
        return differences.drop_interval(kind.score.of_rows, rows[0], rows[1], labels)
    right = [(np.asarray(kind.decision.decide(one)) == labels).reshape(len(labels), -1).mean(1) for one in (ours, theirs)]
    return differences.drop_interval(lambda rows, _: float(rows.mean()), right[0], right[1], labels)


def _told(row: Row, score: str) -> str:
    interval = f"95% interval {row.low:+.4f} to {row.high:+.4f}"
    return f"{score} on the test rows differs by {row.gain:+.4f} from the {share(row.scores['test'])} of the {row.title} ({interval})"
