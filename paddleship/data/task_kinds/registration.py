"""The registration of a task kind, in the file of the kind: here or in a user's package (docs/how-to/add-task-kind.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from paddleship.data.task_kinds import positions
from paddleship.data.task_kinds.class_tables import ClassTable
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.task_kinds.registration import Array, Decision


class LabelReader(Protocol):
    """Reads the labels of one column, row by row."""

    def read(self, number: int, value: Any) -> Any:
        """The label of row `number` as it is stored. Raises RowFault for this row, or DataError for the whole column."""


@dataclass(frozen=True)
class Labels:
    """How labels are read and stored, as one array of `dtype`; None: that of the labels.

    `reader(column, classes)` makes the reader; if the task decides each position, a label is an array with an entry for each character or
    step of the row as it was read. Where rows are `padded`, labels are arrays, and shorter ones are padded with `positions.PADDING`.
    `empty`: a text without characters is a label, and not a missing one. `contradict`: equal rows with different labels contradict each
    other, and are dropped.
    `require(labels, classes)` raises DataError if the training rows cannot be learned from. `findings(parts, classes)` are warnings about
    the labels of the parts, by name of the part, `facts(labels, classes)` what the report says of the training rows. `plotted(labels)`
    are the numbers of their histogram.
    """

    reader: Callable[[str, list[str]], LabelReader]
    dtype: type[np.generic] | None
    contradict: bool = False
    empty: bool = False
    require: Callable[[Array, Sequence[str]], None] = lambda _labels, _classes: None
    findings: Callable[[Mapping[str, Array], Sequence[str]], list[Finding]] = lambda _parts, _classes: []
    facts: Callable[[Array, Sequence[str]], dict[str, Any]] = lambda _labels, _classes: {}
    plotted: Callable[[Array], Array] = np.ravel


@dataclass(frozen=True)
class Score:
    """A score of first outputs against labels; more is better. `name` is part of the names of metrics, `title` is its name in plots.

    `share_of_decisions`: it is the share of decisions that equal their label, so its interval is exact; any other score has one by
    bootstrap. `tolerance(rows, recorded)` is how far two processes may differ in it, because they round differently. `parts(outputs,
    labels)` are two numbers for each row whose sums have the score as their ratio: with them, the bootstrap is fast for large outputs.
    `shares(outputs, labels)` are one number for each row whose sum is the score, for a score that has no such parts. `lowest` and
    `highest` are the ends of its range, where it has some: no plot goes beyond them.
    """

    name: str
    title: str
    of: Callable[[Array, Array], float]
    tolerance: Callable[[int, float], float]
    share_of_decisions: bool = False
    parts: Callable[[Array, Array], Array] | None = None
    shares: Callable[[Array, Array], Array] | None = None
    lowest: float | None = None
    highest: float | None = None

    @property
    def range(self) -> tuple[float | None, float | None]:
        return self.lowest, self.highest

    def contributions(self, outputs: Array, labels: Array) -> Array | None:
        """One number for each row, whose sum is the score; None for a score that is no such sum."""
        if self.shares is not None:
            return self.shares(outputs, labels)
        return None if self.parts is None else of_ratio(self.parts(outputs, labels))

    def rows(self, outputs: Array, labels: Array) -> Array:
        """What `of_rows` computes the score from, for any choice of rows."""
        return outputs if self.parts is None else self.parts(outputs, labels)

    def of_rows(self, rows: Array, labels: Array) -> float:
        """The score of some rows, for a bootstrap."""
        if self.parts is None:
            return self.of(rows, labels)
        hits, count = rows.sum(0)
        return float(hits / count)


def of_ratio(parts: Array) -> Array:
    """What each row adds to a ratio of sums: its influence on the ratio, and an equal share of the ratio itself."""
    hits, count = parts.astype(np.float64).T
    ratio = hits.sum() / count.sum() if count.any() else np.nan
    contributions: Array = (hits - ratio * count) / max(count.sum(), 1) + ratio / len(parts)
    return contributions


@dataclass(frozen=True)
class ConstantAnswer:
    """One answer to all rows, chosen by the training labels: `title` names it, `outputs` are those of a model that gives it to each row."""

    title: str
    outputs: Array


Answering = Callable[[Any], Array]


@dataclass(frozen=True)
class LinearModel:
    """The linear model of a task, which a trained model is compared with.

    `fit(features, labels)` fits it on a matrix of features, which may be sparse, and returns a function from features to outputs, in the
    form that the score takes. `size(labels)` is how many numbers it computes for a row, as far as time and memory grow with them; 0 if it
    cannot predict such labels.
    """

    fit: Callable[[Any, Array], Answering]
    size: Callable[[Array], int]


@dataclass(frozen=True)
class ClassWeights:
    """How the loss of a task weights classes.

    `balanced(labels, count)` are the weights of `count` classes by the training labels. `loss(output, labels, weights)` is the loss with
    them, as a tensor; with equal weights of 1 it is that of the task.
    """

    balanced: Callable[[Array, int], Array]
    loss: Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class UntrainedOutput:
    """The first output of the untrained model for a batch of `rows` rows, and what it must fit: `labels` of each part, and classes.

    `own_loss`: train.loss replaces the loss of the task. `positions`: those of the batch, if the task decides each of them.
    """

    name: str
    shape: Sequence[int]
    rows: int
    classes: Sequence[str]
    labels: Sequence[Array]
    own_loss: bool
    positions: int = 0


@dataclass(frozen=True)
class TaskKind:
    """All that the pipeline knows about a task. Outputs are the first output of a model for all rows of a part.

    `loss(output, labels)` is a tensor with one number, and `class_weights` weights classes in it. `score` is the score that gates use,
    `further` are scores of (outputs, labels, classes) that are reported beside it.
    `fits(outputs, labels)`: the outputs have the shape that the score needs. `check_output` compares the output of
    the untrained model with labels and classes, and raises ModelError.
    `constant(training, outputs, labels)` is the best constant answer by the training labels, for the rows of these outputs and labels; None
    if it says nothing. `linear` is the linear model that outputs are compared with. `per_class(outputs, labels, classes)` are the scores of
    each class, `findings(outputs, labels, classes)` warnings about the outputs of the trained model for the test rows.

    `decisive(outputs)`: decisions are enough to judge a lower precision by. `margin(eager, other)` is by how much the outputs of one row
    would have to change to decide as those of `other` do. `bind(functions)` is the kind with the functions that data.task names.
    """

    decision: Decision
    labels: Labels
    loss: Callable[[Any, Any], Any]
    score: Score
    fits: Callable[[Array, Array], bool]
    further: Mapping[str, Callable[[Array, Array, Sequence[str]], float]] = field(default_factory=dict)
    check_output: Callable[[UntrainedOutput], list[Finding]] | None = None
    constant: Callable[[Array, Array, Array], ConstantAnswer | None] = lambda _training, _outputs, _labels: None
    class_weights: ClassWeights | None = None
    linear: LinearModel | None = None
    per_class: Callable[[Array, Array, Sequence[str]], ClassTable | None] = lambda _outputs, _labels, _classes: None
    findings: Callable[[Array, Array, Sequence[str]], list[Finding]] = lambda _outputs, _labels, _classes: []
    decisive: Callable[[Array], bool] = lambda _outputs: True
    margin: Callable[[Array, Array], float] = lambda _eager, _other: np.inf
    bind: Callable[[Mapping[str, str]], TaskKind] | None = None

    @property
    def name(self) -> str:
        return self.decision.name

    @property
    def per_position(self) -> bool:
        return self.decision.per_position

    def stacked(self, labels: Sequence[Any]) -> Array:
        """The labels of rows as they are stored, as one array."""
        if not self.decision.padded:
            return np.asarray(labels, self.labels.dtype)
        return positions.stack(labels, self.labels.dtype or np.int64, pad=positions.PADDING)

    def batched(self, labels: Array, width: Callable[[], int]) -> Array:
        """The labels of a batch, padded as its rows are; `width` returns the number of their positions."""
        return positions.fit(labels, width()) if self.per_position else labels

    def joined(self, outputs: Sequence[Array]) -> Array:
        """The first outputs for several batches as one array."""
        sized_alike = len({output.shape[1:] for output in outputs}) == 1
        return np.concatenate(outputs) if sized_alike else positions.join(outputs)

    def flips(self, before: Array, after: Array, labels: Array | None = None) -> Array | None:
        """Which decisions differ between two outputs, as one axis; None if they decide nothing. Padding decides nothing."""
        first, second = self.decision.decide(before), self.decision.decide(after)
        if first is None or second is None:
            return None
        differ: Array = first != second
        if self.per_position and labels is not None:
            return positions.at(differ, labels)
        return np.ravel(differ.any(-1) if self.decision.joint else differ)
