"""Numbers: floats are sent as they are in the data, and standardised with mean and deviation of the training rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from paddleship.errors import DataError, RequestError
from paddleship.shipped.computing.preprocess.measures import Array
from paddleship.shipped.computing.preprocess.registration import Content, InputEncoder, Kind, fitted, param
from paddleship.shipped.computing.preprocess.tensors import checked
from paddleship.shipped.computing.spec import TensorSpec


@dataclass(frozen=True, kw_only=True)
class Numbers(InputEncoder):
    """One number, or a list of numbers of fixed length; `mean` and `deviation` have one value for each of them."""

    quick: ClassVar[bool] = True

    log: bool = param("standardise log(1 + number); numbers must be above -1", False)
    mean: Sequence[float] = fitted(())
    deviation: Sequence[float] = fitted(())

    def __post_init__(self) -> None:
        if self.spec.numpy_dtype.kind != "f" or not all(isinstance(size, int) for size in self.spec.shape[1:]):
            raise DataError(
                f"standardised numbers are floats of fixed shape, and model.inputs gives {self.spec.name!r} {self.spec.dtype} "
                f"{list(self.spec.shape)}: declare float32 and sizes, or leave the kind out"
            )

    @cached_property
    def request(self) -> TensorSpec:
        """Numbers in full precision, without the range of the model's input, which they have after standardising."""
        return TensorSpec(self.column, "float64", self.spec.shape)

    @property
    def content(self) -> Content | None:
        return Content.NUMBERS

    def accept(self, value: Any) -> Any:
        array = checked(value, self.request)
        self._scale(array)
        return array

    def fit(self, values: Sequence[Any]) -> Self:
        rows = np.stack([self._scale(np.asarray(value, np.float64)) for value in values]).reshape(len(values), -1)
        deviation = rows.std(axis=0)
        return replace(self, mean=rows.mean(axis=0).tolist(), deviation=np.where(deviation > 0, deviation, 1).tolist())

    def encode(self, value: Any) -> Array:
        scaled = self._scale(checked(value, self.request))
        mean, deviation = (np.reshape(values, scaled.shape) for values in (self.mean, self.deviation))
        with np.errstate(over="ignore"):  # values that do not fit are refused below
            row = np.asarray((scaled - mean) / deviation).astype(self.spec.numpy_dtype)
        if not np.isfinite(row).all():
            raise RequestError(f"input {self.column!r} is too far from the training rows for {self.spec.dtype}", "give smaller numbers")
        return row

    def _scale(self, array: Array) -> Array:
        if not self.log:
            return array
        if (array <= -1).any():
            raise RequestError(f"input {self.column!r} must be above -1 for its logarithm (got {array.min():g})", "correct the number")
        return np.asarray(np.log1p(array))


KIND = Kind("numbers", Numbers, "numbers are standardised with mean and deviation of the training rows")
