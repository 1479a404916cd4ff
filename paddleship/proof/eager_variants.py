"""Forms of the eager model, one after the other, in a child process: float32, float64, operator by operator, `to_static`, nudged."""

from __future__ import annotations

from typing import Literal

import numpy as np

from paddleship.controlflow.tracing import BranchKey, TracedEager
from paddleship.errors import ModelError
from paddleship.model.eager import Eager, SourceModel
from paddleship.numerics.differences import Array
from paddleship.proof import yardstick
from paddleship.proof.evidence import EPSILON
from paddleship.proof.yardstick import EagerArithmetic
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import Arrays

EagerForm = Literal["float32", "float64", "by operator", "static"]


class ReferenceWorker:
    """The object in the child process: the eager model in one form after the other, so that Paddle is imported once."""

    def __init__(self, source_model: SourceModel) -> None:
        self._source_model = source_model
        self._eager: Eager | None = None
        self._traced: TracedEager | None = None
        self._random: np.random.Generator | None = None

    def become(self, form: EagerForm) -> None:
        self._eager = None  # only one set of weights in memory
        self._random = None
        if form == "float32":
            self._traced = self._eager = TracedEager(self._source_model)
        elif form == "static":
            self._eager = Eager(self._source_model, static=True)
        else:
            by_operator = form == "by operator"
            self._eager = Eager(self._source_model, dtype="float32" if by_operator else form, by_operator=by_operator)

    def nudge(self, seed: int) -> None:
        """Change every float32 weight, and from now on every float32 input, by up to two roundings."""
        if self._eager is None:
            return
        self._random = np.random.default_rng(seed)
        for tensor in self._eager.layer.state_dict().values():
            if (array := tensor.numpy()).dtype == np.float32:
                tensor.set_value(self._moved(array))

    def _moved(self, array: Array) -> Array:
        if self._random is None or array.dtype != np.float32:
            return array
        moved: Array = (array * (1 + EPSILON * self._random.uniform(-2, 2, array.shape))).astype(np.float32)
        return moved

    def single(self) -> list[str]:
        """The operators that have only a float32 kernel, in the form operator by operator."""
        return self._eager.single if self._eager else []

    def run(self, inputs: Batch) -> Arrays | str:
        """The answer, or the error message."""
        try:
            moved = {name: self._moved(array) for name, array in inputs.items()}
            return self._eager.run(moved) if self._eager else "nothing is loaded"
        except ModelError as refusal:
            return str(refusal)

    def arithmetic(self) -> EagerArithmetic:
        """Where this process computes, and whether float32 is rounded there."""
        return yardstick.measure()

    def taken_branches(self) -> dict[BranchKey, set[int]]:
        """The outcomes of each `if` and loop of the user's code in eager float32 since the last call."""
        taken = dict(self._traced.taken_branches()) if self._traced else {}
        if self._traced:
            self._traced.taken_branches().clear()
        return taken
