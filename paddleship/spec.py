"""What a tensor at the edge of a model looks like."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class TensorSpec:
    """One named input or output.

    `shape` starts with the batch dimension; a string names a dynamic dimension, an int is fixed.
    `low` and `high` are the inclusive range of valid values, None where any value is valid.
    `pad` fills rows that are shorter than the longest of their batch.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    low: float | None = None
    high: float | None = None
    pad: float = 0

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return np.dtype(self.dtype)

    @property
    def dynamic_shape(self) -> list[int | None]:
        """The shape as Paddle's InputSpec wants it: None where a dimension is dynamic."""
        return [None if isinstance(size, str) else size for size in self.shape]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "shape": list(self.shape)}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> TensorSpec:
        return cls(**{**value, "shape": tuple(value["shape"])})
