"""A task of the user's own: its metric, decision and loss are functions that data.task names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from paddleship.data.class_labels import ClassLabels
from paddleship.data.task_kinds.registration import LabelReader, Labels, Score, TaskKind
from paddleship.data.task_kinds.regression import NumberLabels
from paddleship.errors import ModelError, ParamsError
from paddleship.shipped.computing.references import explain, resolve, user_line
from paddleship.shipped.computing.task_kinds.custom import DECISION
from paddleship.shipped.computing.task_kinds.registration import Array

_ROWS, _SHARE = 2, 0.005  # rows whose decision may depend on the rounding of another process or device, as in a classification


class _Function:
    """A function of the user, imported when it is called: the params are also read where its code is not on the import path."""

    def __init__(self, part: str, reference: str, form: str) -> None:
        self._what, self._reference, self._form = f"data.task.{part}", reference, form

    def __call__(self, *arrays: Any) -> Any:
        function = resolve(self._reference, key=self._what, error=ModelError)
        try:
            return function(*arrays)
        except Exception as failure:
            shapes = " and ".join(str(list(array.shape)) for array in arrays)
            message = f"{self._what} {self._reference!r} failed on {shapes} ({explain(failure)}): fix that function"
            raise ModelError(message, where=user_line(failure)) from None

    def refused(self, returned: Any) -> ModelError:
        shown = f"an array of shape {list(returned.shape)}" if hasattr(returned, "shape") else f"{returned!r:.60}"
        return ModelError(f"{self._what} {self._reference!r} returned {shown}: let it return {self._form}")


def _metric(reference: str) -> Callable[[Array, Array], float]:
    function = _Function("metric", reference, "one number, of which more is better")

    def metric(outputs: Array, labels: Array) -> float:
        returned = function(outputs, labels)
        if not np.isscalar(returned) and np.ndim(returned):
            raise function.refused(returned)
        try:
            return float(returned)
        except (TypeError, ValueError):
            raise function.refused(returned) from None

    return metric


def _decide(reference: str) -> Callable[[Array], Array | None]:
    function = _Function("decision", reference, "an array of whole numbers or truth values, with the rows along its first axis")

    def decide(output: Array) -> Array | None:
        if not output.ndim:
            return None
        returned = np.asarray(function(output))
        if not returned.ndim or len(returned) != len(output) or returned.dtype.kind not in "biu":
            raise function.refused(returned)
        decided: Array = returned.reshape(len(returned), -1)
        return decided

    return decide


def _no_loss(_output: Any, _labels: Any) -> Any:
    raise ParamsError("data.task has no loss, and train.loss is null: add one of them, or take weights from a file")


def _bind(functions: Mapping[str, str]) -> TaskKind:
    metric = functions["metric"]
    decision = replace(DECISION, decide=_decide(functions["decision"]), joint=True) if "decision" in functions else DECISION
    loss = _Function("loss", functions["loss"], "one number as a tensor") if "loss" in functions else _no_loss
    title = metric.partition(":")[2].replace("_", " ")
    return replace(TASK_KIND, decision=decision, loss=loss, score=replace(TASK_KIND.score, title=title, of=_metric(metric)))


def _reader(column: str, classes: list[str]) -> LabelReader:
    return ClassLabels(column, classes) if classes else NumberLabels(column, classes)


def _tolerance(rows: int, recorded: float) -> float:
    return max(_ROWS / rows, _SHARE) * max(1.0, abs(recorded))


TASK_KIND = TaskKind(
    decision=DECISION,
    labels=Labels(_reader, None),
    loss=_no_loss,
    score=Score("own_metric", "own metric", lambda _outputs, _labels: math.nan, tolerance=_tolerance),
    fits=lambda outputs, labels: outputs.ndim > 0 and len(outputs) == len(labels),
    bind=_bind,
)
