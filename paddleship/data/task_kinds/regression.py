"""Regression: one number for each row, or several of one shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from paddleship.data.row_faults import RowFault, where
from paddleship.data.task_kinds import linear, skill
from paddleship.data.task_kinds.registration import ConstantAnswer, Labels, Score, TaskKind
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.preprocess.tensors import UNUSUAL
from paddleship.shipped.computing.task_kinds.registration import Array
from paddleship.shipped.computing.task_kinds.regression import DECISION

_TOLERANCE = 1e-3


class NumberLabels:
    """Reads labels as float32 arrays of one shape."""

    def __init__(self, column: str, _classes: list[str]) -> None:
        self._column = column
        self._first: tuple[int, tuple[int, ...]] | None = None  # the first row, and the shape of its label

    def read(self, number: int, value: Any) -> Array:
        """The label of row `number`. Raises RowFault."""
        held = partial(where, number, self._column, value)
        try:
            if isinstance(value, str) and UNUSUAL.search(value):
                raise ValueError(value)
            with np.errstate(over="ignore"):  # values that do not fit are refused below
                array = np.asarray(value, np.float32)
        except (TypeError, ValueError, OverflowError):
            raise RowFault(f"{held()}, and a regression needs numbers", "correct the row, or set data.task") from None
        if not np.isfinite(array).all():
            raise RowFault(f"{held()}, which is not a finite float32", "correct the row, or return None as its label to drop it")
        first, shape = self._first = self._first or (number, array.shape)
        if array.shape != shape:
            raise RowFault(
                f"{held()} of shape {list(array.shape)}, and row {first} has shape {list(shape)}", "give every label the same shape"
            )
        return array


def _loss(output: Any, labels: Any) -> Any:
    from paddle.nn import functional

    return functional.mse_loss(output.reshape(labels.shape), labels)


def r2(outputs: Array, labels: Array) -> float:
    """Share of the labels' variance that the outputs explain (R²); NaN if the labels do not vary.

    For several targets (the last axis of [rows, …, targets]), the mean of their R², so that none outweighs another by its unit. Targets
    that do not vary are left out.
    """
    residual, spread = (squares.sum((0, 1)) for squares in _squares(outputs, labels))
    varies = spread > 0
    return float((1 - residual[varies] / spread[varies]).mean()) if varies.any() else math.nan


def _squares(outputs: Array, labels: Array) -> tuple[Array, Array]:
    """The squares of errors, and of distances from the mean, as [rows, …, targets]; 0 where labels are equal in all rows."""
    targets = labels.shape[-1] if labels.ndim > 1 else 1
    wide = labels.astype(np.float64)  # squares of float32 numbers may not fit into float32
    distance = np.where(wide.max(0) > wide.min(0), wide - wide.mean(0), 0)
    pair = (outputs.reshape(labels.shape) - wide) ** 2, distance**2
    return pair[0].reshape(len(labels), -1, targets), pair[1].reshape(len(labels), -1, targets)


def _gains(outputs: Array, labels: Array) -> Array:
    """What each row adds to R², times the number of rows; empty if the labels do not vary."""
    error, spread = _squares(outputs, labels)
    varies = spread.sum((0, 1)) > 0
    if not varies.any():
        return np.zeros(0)
    gains: Array = ((spread - error)[..., varies].mean(1) / spread[..., varies].mean((0, 1))).mean(1)
    return gains


def _fits(outputs: Array, labels: Array) -> bool:
    """Not if a loss of the user's own reads the outputs in another way."""
    return outputs.size == labels.size


def _constant(training: Array, outputs: Array, labels: Array) -> ConstantAnswer | None:
    return ConstantAnswer("mean", np.broadcast_to(training.mean(0), labels.shape)) if _fits(outputs, labels) else None


def _findings(outputs: Array, labels: Array, _classes: Sequence[str]) -> list[Finding]:
    if not _fits(outputs, labels):
        return []
    gains = _gains(outputs, labels)
    if not len(gains):
        return []
    return skill.findings(f"R² on the {len(labels):,} test rows is {gains.mean():.4f}, and always answering the mean gives 0", gains)


TASK_KIND = TaskKind(
    decision=DECISION,
    labels=Labels(NumberLabels, np.float32),
    loss=_loss,
    score=Score(
        "r2",
        "R²",
        r2,
        tolerance=lambda _rows, recorded: _TOLERANCE * max(1.0, abs(recorded)),
        shares=lambda outputs, labels: _gains(outputs, labels) / len(labels),
        highest=1,
    ),
    fits=_fits,
    constant=_constant,
    linear=linear.REGRESSOR,
    findings=_findings,
)
