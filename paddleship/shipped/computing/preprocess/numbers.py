"""Numbers: floats are sent as they are in the data, and standardised with mean and deviation of the training rows.

Missing numbers, which are NaN here, are filled with the mean or median of the training rows before anything else is done with them. Mean
and deviation are those of the filled rows, as in a pipeline of scikit-learn's SimpleImputer and StandardScaler.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np

from paddleship.errors import DataError, RequestError
from paddleship.shipped.computing.preprocess.measures import Array, Measure
from paddleship.shipped.computing.preprocess.registration import Content, InputEncoder, Kind, ValueMeasure, fitted, param
from paddleship.shipped.computing.preprocess.tensors import checked
from paddleship.shipped.computing.spec import TensorSpec

_OF_MISSING = ("missing", "indicator", "fill")


@dataclass(frozen=True, kw_only=True)
class Numbers(InputEncoder):
    """One number, or a list of numbers of fixed length; `mean`, `deviation` and `fill` have one value for each of them."""

    quick: ClassVar[bool] = True

    log: bool = param("standardise log(1 + number); numbers must be above -1", False)
    missing: Literal["drop", "mean", "median"] = param(
        "what fills a missing number: the mean or median of the training rows; drop: such a row is dropped, and a request refused", "drop"
    )
    indicator: str | None = param(
        "with missing: input of the model that is 1 for each missing number and 0 for others; null: none", None, names="input"
    )
    mean: Sequence[float] = fitted(())
    deviation: Sequence[float] = fitted(())
    fill: Sequence[float] = fitted(())
    gives: Literal["numbers", "indicator"] = field(default="numbers", metadata={"stored": False})

    def __post_init__(self) -> None:
        kinds = "f" if self.gives == "numbers" else "biuf"
        if self.spec.numpy_dtype.kind not in kinds or not all(isinstance(size, int) for size in self.spec.shape[1:]):
            raise DataError(
                f"standardised numbers are floats of fixed shape, and model.inputs gives {self.spec.name!r} {self.spec.dtype} "
                f"{list(self.spec.shape)}: declare float32 and sizes, or leave the kind out"
            )
        if self.indicator is not None and not self.takes_missing:
            raise DataError(
                f"preprocess.inputs.{self.spec.name}.indicator is {self.indicator!r}, and rows with a missing number are dropped: set "
                "missing to mean or median, or leave indicator out"
            )

    @cached_property
    def request(self) -> TensorSpec:
        """Numbers in full precision, without the range of the model's input, which they have after standardising."""
        return TensorSpec(self.column, "float64", self.spec.shape)

    @property
    def content(self) -> Content | None:
        return Content.NUMBERS

    @property
    def takes_missing(self) -> bool:
        return self.missing != "drop"

    def accept(self, value: Any) -> Any:
        array = self._checked(value)
        self._scale(array)
        return np.where(np.isnan(array), np.nan, array) if self.takes_missing else array  # one NaN, so that rows with it are equal

    def fit(self, values: Sequence[Any]) -> Self:
        rows = [np.asarray(value, np.float64) for value in values]
        fill = self._fitted_fill(np.stack(rows)) if self.takes_missing else ()
        scaled = np.stack([self._scale(_filled(row, fill)) for row in rows]).reshape(len(rows), -1)
        deviation = scaled.std(axis=0)
        return replace(self, mean=scaled.mean(axis=0).tolist(), deviation=np.where(deviation > 0, deviation, 1).tolist(), fill=fill)

    def limited(self, values: Sequence[Any]) -> TensorSpec:
        return super().limited(values) if self.gives == "numbers" else replace(self.spec, low=0.0, high=1.0)

    def encode(self, value: Any) -> Array:
        array = self._checked(value)
        if self.gives == "indicator":
            return np.asarray(np.isnan(array), self.spec.numpy_dtype)
        scaled = self._scale(_filled(array, self.fill))
        mean, deviation = (np.reshape(values, scaled.shape) for values in (self.mean, self.deviation))
        with np.errstate(over="ignore"):  # values that do not fit are refused below
            row = np.asarray((scaled - mean) / deviation).astype(self.spec.numpy_dtype)
        if not np.isfinite(row).all():
            raise RequestError(f"input {self.column!r} is too far from the training rows for {self.spec.dtype}", "give smaller numbers")
        return row

    def features(self) -> Iterator[tuple[str, Measure]]:
        return super().features() if self.gives == "numbers" else iter(())

    def value_features(self) -> Iterator[tuple[str, ValueMeasure]]:
        if self.takes_missing and self.gives == "numbers":
            yield f"{self.column}.missing_share", lambda value: float(np.isnan(np.asarray(value, np.float64)).mean())

    def malformed(self, value: Any) -> Iterator[tuple[str, Any]]:
        if not self.takes_missing:
            yield "a missing number", np.full_like(np.asarray(value, np.float64), np.nan)

    def stored(self) -> dict[str, Any]:
        """Without the fields about missing numbers where those are dropped, as it was before there were any."""
        return {name: value for name, value in super().stored().items() if self.takes_missing or name not in _OF_MISSING}

    def _checked(self, value: Any) -> Array:
        return checked(value, self.request, missing=self.takes_missing)

    def _fitted_fill(self, rows: Array) -> list[float]:
        known = np.nanmean(rows, axis=0) if self.missing == "mean" else np.nanmedian(rows, axis=0)
        return [float(number) for number in np.ravel(known)]

    def _scale(self, array: Array) -> Array:
        if not self.log:
            return array
        if (array <= -1).any():
            least = f"{np.nanmin(array):g}"
            raise RequestError(f"input {self.column!r} must be above -1 for its logarithm (got {least})", "correct the number")
        return np.asarray(np.log1p(array))


def _filled(array: Array, fill: Sequence[float]) -> Array:
    """The array with `fill` in place of what is missing; unchanged where nothing is filled."""
    return np.where(np.isnan(array), np.reshape(fill, array.shape), array) if len(fill) else array


KIND = Kind("numbers", Numbers, "numbers are standardised with mean and deviation of the training rows")
