"""Numbers that describe one row of an array: single numbers, sizes, means and deviations."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from paddleship.shipped.computing.spec import TensorSpec

MOST_COLUMNS = 128  # of a short row that are measured one by one
_CHANNELS = (2, 3, 4)  # sizes of an axis of an image that holds its channels
_MATRIX = 2  # axes of a row from which an array may be an image
Array = np.ndarray[Any, Any]
Measure = Callable[[Array], float]


def of_input(name: str, spec: TensorSpec) -> Iterator[tuple[str, Measure]]:
    """The measures of a row of this form, by names that begin with `name`."""
    shape = spec.shape[1:]
    fixed = [size for size in shape if isinstance(size, int)]
    if len(fixed) == len(shape) and len(shape) < _MATRIX and math.prod(fixed) <= MOST_COLUMNS:
        return _columns(name, fixed)
    return _of_array(name, spec)


def _columns(name: str, shape: Sequence[int]) -> Iterator[tuple[str, Measure]]:
    """The number of a scalar input, or each column of a short row."""
    if not shape:
        yield name, float
    for index in range(shape[0] if shape else 0):
        yield f"{name}[{index}]", lambda row, index=index: float(row[index])  # type: ignore[misc]


def _of_array(given: str, spec: TensorSpec) -> Iterator[tuple[str, Measure]]:
    """Sizes without padding, mean and standard deviation, the mean of each channel, and of whole numbers one that its row chooses."""
    shape = spec.shape[1:]
    for axis, size in enumerate(shape):
        if isinstance(size, str):
            yield f"{given}.{size}", lambda row, axis=axis: _size(row, spec.pad, axis)  # type: ignore[misc]
        elif size in _CHANNELS and len(shape) > _MATRIX:
            for channel in range(size):
                yield (
                    f"{given}.mean[{channel}]",
                    lambda row, axis=axis, channel=channel: float(row.take(channel, axis).mean(dtype=np.float64)),  # type: ignore[misc]
                )
    yield f"{given}.mean", lambda row: float(_without_padding(row, spec).mean(dtype=np.float64))
    yield f"{given}.std", lambda row: float(_without_padding(row, spec).std(dtype=np.float64))
    if spec.numpy_dtype.kind in "iu":
        yield f"{given}.value", lambda row: _one(_without_padding(row, spec))


def _size(row: Array, pad: float, axis: int) -> float:
    """The size of an axis up to the last value that is no padding, because a client pads the rows of its batch."""
    others = tuple(other for other in range(row.ndim) if other != axis)
    used = np.flatnonzero((row != pad).any(axis=others))
    return float(used[-1] + 1) if used.size else 0.0


def _without_padding(row: Array, spec: TensorSpec) -> Array:
    """The row up to its sizes without padding; all of it if it is padding only."""
    sizes = (int(_size(row, spec.pad, axis)) if isinstance(size, str) else size for axis, size in enumerate(spec.shape[1:]))
    part = row[tuple(slice(size) for size in sizes)]
    return part if part.size else row


def _one(row: Array) -> float:
    """One value of the row, at an index that its content chooses, so that equal rows give equal values."""
    return float(row.flat[zlib.crc32(row.tobytes()) % row.size])
