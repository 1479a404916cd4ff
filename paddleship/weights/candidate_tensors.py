"""The tensors in a candidate's files, by the names in the exported program, read without running or unpickling anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from paddleship.numerics.differences import Array


@dataclass(frozen=True)
class Tensor:
    """A tensor of a file; `step` is the distance of neighbouring quantised values along it, None if it is not quantised."""

    values: Array = field(repr=False)
    step: Array | None = field(default=None, repr=False)


Tensors = Mapping[str, Tensor]


def dequantised(codes: Array, scale: Array, zero: Array, *, axis: int = -1) -> Tensor:
    """Dequantise integers; scales of one axis are along `axis`, scales of two axes along the first and the last."""
    steps, zeros = (_along(np.asarray(array, dtype=np.float64), codes, axis) for array in (scale, zero))
    return Tensor((codes.astype(np.float64) - zeros) * steps, np.abs(steps))


def _along(array: Array, codes: Array, axis: int) -> Array:
    if array.size == 1:
        return array.reshape(())
    if array.ndim > 1:
        return np.expand_dims(array, tuple(range(1, 1 + codes.ndim - array.ndim)))
    return array.reshape([array.size if dimension == axis % codes.ndim else 1 for dimension in range(codes.ndim)])
