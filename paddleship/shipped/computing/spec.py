"""Inputs and outputs of a model: names, dtypes, shapes, valid sizes and values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

BATCH = "batch"
Arrays = dict[str, np.ndarray[Any, Any]]  # by name of the input or output
_BOUND = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:([-+])\s*(\d+))?\s*")


@dataclass(frozen=True)
class Dimension:
    """The sizes that a dynamic dimension of a row may have, inclusive; `high` is None if it is unknown."""

    name: str
    low: int = 1
    high: int | None = None
    multiple_of: int = 1

    def __str__(self) -> str:
        steps = f" in multiples of {self.multiple_of}" if self.multiple_of > 1 else ""
        return (f"{self.low} or more" if self.high is None else f"{self.low} … {self.high}") + steps

    def allows(self, size: int) -> bool:
        return self.low <= size and (self.high is None or size <= self.high) and size % self.multiple_of == 0

    def over(self, sizes: Sequence[int]) -> Dimension:
        """The dimension with these sizes as its limits; unlimited without any."""
        return replace(self, low=min(sizes, default=1), high=max(sizes, default=None))

    @property
    def smallest(self) -> int:
        """The smallest allowed size."""
        return -(-self.low // self.multiple_of) * self.multiple_of

    def nearest(self, size: int) -> int:
        """The largest allowed size up to `size`; otherwise the smallest allowed size."""
        below = min(size, self.high) if self.high is not None else size
        return max(self.smallest, below // self.multiple_of * self.multiple_of)


@dataclass(frozen=True)
class TensorSpec:
    """One named input or output.

    In `shape`, a string names a dynamic dimension and an int is a fixed size; see batch_dimension. Inputs of a server start
    with the batch. `low` and `high` are the inclusive range of valid values; None means no limit. A string names a dynamic
    dimension, whose size in the same row is the limit, as in "length" or "length - 1". `pad` fills rows that are shorter than
    the longest row of their batch.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    low: float | str | None = None
    high: float | str | None = None
    pad: float = 0

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return np.dtype(self.dtype)

    @property
    def dynamic_shape(self) -> list[int | None]:
        """The shape for Paddle's InputSpec: None for a dynamic dimension."""
        return [None if isinstance(size, str) else size for size in self.shape]

    def limits(self, sizes: Mapping[str, int]) -> tuple[float | None, float | None]:
        """Lowest and highest valid value in a row of these sizes."""
        return _value(self.low, sizes), _value(self.high, sizes)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "shape": list(self.shape)}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> TensorSpec:
        return cls(**{**value, "shape": tuple(value["shape"])})


def bound(text: str) -> tuple[str, int] | None:
    """The dimension that a bound names and what is added to its size; None where the text is neither "NAME" nor "NAME - 1"."""
    if (found := _BOUND.fullmatch(text)) is None:
        return None
    return found[1], int(f"{found[2]}{found[3]}") if found[2] else 0


def batch_dimension(specs: Sequence[TensorSpec]) -> str | None:
    """The dimension that counts rows: the one called `batch`, at any place; else the one with which every input begins, where it is
    dynamic and no input has it twice, as the matrix of a graph has its nodes. None where there is none."""
    if any(BATCH in spec.shape for spec in specs):
        return BATCH
    firsts = {spec.shape[0] if spec.shape else None for spec in specs}
    first = next(iter(firsts)) if len(firsts) == 1 else None
    return first if isinstance(first, str) and all(spec.shape.count(first) == 1 for spec in specs) else None


def batch_axis(spec: TensorSpec, batch: str | None) -> int | None:
    """The batch axis of an input; None if it has none."""
    return spec.shape.index(batch) if batch in spec.shape else None


def row_dimensions(specs: Sequence[TensorSpec]) -> list[str]:
    """Names of the dynamic dimensions besides the batch, in their order."""
    batch = batch_dimension(specs)
    return list(dict.fromkeys(size for spec in specs for size in spec.shape if isinstance(size, str) and size != batch))


def sizes_of(specs: Sequence[TensorSpec], inputs: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, int]:
    """The size of every dynamic dimension of a batch, by name."""
    return {size: inputs[spec.name].shape[axis] for spec in specs for axis, size in enumerate(spec.shape) if isinstance(size, str)}


def row_sizes(specs: Sequence[TensorSpec], example: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, int]:
    """The size of every dynamic dimension of one row, whose arrays have no batch dimension."""
    return {size: example[spec.name].shape[axis] for spec in specs for axis, size in enumerate(spec.shape[1:]) if isinstance(size, str)}


def _value(limit: float | str | None, sizes: Mapping[str, int]) -> float | None:
    if not isinstance(limit, str):
        return limit
    name, extra = bound(limit) or (limit, 0)
    return sizes[name] + extra
