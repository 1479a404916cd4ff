"""Precision, recall and F1 of each class, and which class was decided in place of which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from paddleship.shipped.computing.task_kinds.registration import Array


@dataclass(frozen=True)
class ClassRow:
    """The scores of one class: `support` are the labels that are it, `chosen` the decisions. None: there is nothing to count."""

    name: str
    precision: float | None
    recall: float | None
    f1: float | None
    support: int
    chosen: int


@dataclass(frozen=True)
class ClassTable:
    """The scores of all classes. `pairs` counts decisions by (class of the label, class that was decided); empty for sets of labels."""

    rows: Sequence[ClassRow]
    pairs: dict[tuple[int, int], int]

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that are a label or a decision; NaN if there is none."""
        scores = [row.f1 for row in self.rows if row.f1 is not None]
        return sum(scores) / len(scores) if scores else math.nan

    def confused(self, most: int) -> list[tuple[str, str, int]]:
        """The most frequent wrong decisions: class of the label, class that was decided, count."""
        wrong = sorted((-count, pair) for pair, count in self.pairs.items() if pair[0] != pair[1])
        return [(self.rows[label].name, self.rows[decided].name, -count) for count, (label, decided) in wrong[:most]]

    def matrix(self) -> Array:
        """The counts by class of the label (row) and class that was decided (column)."""
        counts = np.zeros((len(self.rows), len(self.rows)), np.int64)
        for pair, count in self.pairs.items():
            counts[pair] = count
        return counts

    def to_dict(self, *, most_pairs: int) -> dict[str, Any]:
        return {"classes": [asdict(row) for row in self.rows], "confused": [list(pair) for pair in self.confused(most_pairs)]}


def of_classes(decided: Array, labels: Array, count: int, classes: Sequence[str]) -> ClassTable:
    """The table of decisions for one class each; `count` is how many classes the model knows."""
    decided, labels = np.ravel(decided).astype(np.int64), np.ravel(labels).astype(np.int64)
    count = max(count, int(labels.max()) + 1)
    pairs, numbers = np.unique(labels * count + decided, return_counts=True)
    counted = {(int(pair) // count, int(pair) % count): int(number) for pair, number in zip(pairs, numbers, strict=True)}
    right = np.bincount(labels[decided == labels], minlength=count)
    rows = _rows(right, np.bincount(labels, minlength=count), np.bincount(decided, minlength=count), classes)
    return ClassTable(rows, counted)


def of_sets(chosen: Array, wanted: Array, classes: Sequence[str]) -> ClassTable:
    """The table of decisions for any number of classes each, as booleans of rows and classes."""
    return ClassTable(_rows((chosen & wanted).sum(0), wanted.sum(0), chosen.sum(0), classes), {})


def _rows(right: Array, support: Array, chosen: Array, classes: Sequence[str]) -> list[ClassRow]:
    return [
        ClassRow(
            classes[index] if index < len(classes) else str(index),
            _share(right[index], chosen[index]),
            _share(right[index], support[index]),
            _share(2 * right[index], support[index] + chosen[index]),
            int(support[index]),
            int(chosen[index]),
        )
        for index in range(len(right))
    ]


def _share(part: Any, whole: Any) -> float | None:
    return round(float(part) / float(whole), 6) if whole else None
