"""Features of a row: a few numbers that say what a row is like, for comparing requests with the training rows.

The same code describes the training rows and, in a server, the requests. It reads what the model reads, after the preprocess, and
gives lengths, means and single numbers, never text. This module goes into the image, so it needs only numpy.
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from paddleship.shipped.computing.preprocess import Characters, Example
from paddleship.shipped.computing.spec import TensorSpec

MOST_FEATURES = 128  # of a model; further columns are not watched
_CHANNELS = (2, 3, 4)  # sizes of an axis of an image that holds its channels
_MATRIX = 2  # axes of a row from which an array may be an image
Measure = Callable[[np.ndarray[Any, Any]], float]


@dataclass(frozen=True)
class Bins:
    """The bins of one feature. Bin 0 is below `low`, the last one above `high`; between them `cuts` are the upper ends of the bins.

    If `values` is given, each of them has a bin of its own, and the last bin is for all others.
    """

    name: str
    low: float = 0
    high: float = 0
    cuts: tuple[float, ...] = ()
    values: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.values) + 1 if self.values else len(self.cuts) + 3

    def index(self, value: float) -> int:
        """The bin of a value."""
        if self.values:
            place = bisect_left(self.values, value)
            return place if place < len(self.values) and self.values[place] == value else len(self.values)
        if value < self.low:
            return 0
        return len(self) - 1 if value > self.high else 1 + bisect_left(self.cuts, value)

    @property
    def unseen(self) -> tuple[int, ...]:
        """The bins of values that no training row has."""
        return (len(self.values),) if self.values else (0, len(self) - 1)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "cuts": list(self.cuts), "values": list(self.values)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Bins:
        return cls(value["name"], value["low"], value["high"], tuple(value["cuts"]), tuple(value["values"]))


class Features:
    """The features of a model's rows. `names` are those that are measured, `left_out` those beyond MOST_FEATURES."""

    def __init__(self, specs: Sequence[TensorSpec], preprocess: Mapping[str, Any]) -> None:
        found = [(spec.name, name, measure) for spec in specs for name, measure in _measures(spec, preprocess)]
        self._kept, rest = found[:MOST_FEATURES], found[MOST_FEATURES:]
        self.names = tuple(name for _, name, _ in self._kept)
        self.left_out = tuple(name for _, name, _ in rest)

    def of(self, example: Example) -> list[float]:
        """The value of every feature of one row, finite, in the order of `names`."""
        with np.errstate(all="ignore"):
            return [_finite(measure(example[given])) for given, _, measure in self._kept]


def _measures(spec: TensorSpec, preprocess: Mapping[str, Any]) -> Iterator[tuple[str, Measure]]:
    """The features of one input by name."""
    shape = spec.shape[1:]
    fixed = [size for size in shape if isinstance(size, int)]
    if preprocess["kind"] == "characters" and preprocess["input"] == spec.name:
        column = preprocess["column"]
        yield from {f"{column}.length": _length, f"{column}.unknown_share": _unknown_share, f"{column}.rarity": _rarity}.items()
    elif len(fixed) == len(shape) and len(shape) < _MATRIX and math.prod(fixed) <= MOST_FEATURES:
        yield from _columns(spec.name, fixed)
    else:
        yield from _of_array(spec)


def _columns(name: str, shape: Sequence[int]) -> Iterator[tuple[str, Measure]]:
    """The number of a scalar input, or each column of a short row."""
    if not shape:
        yield name, float
    for index in range(shape[0] if shape else 0):
        yield f"{name}[{index}]", lambda row, index=index: float(row[index])  # type: ignore[misc]


def _of_array(spec: TensorSpec) -> Iterator[tuple[str, Measure]]:
    """Sizes without padding, mean and standard deviation, the mean of each channel, and of whole numbers one that its row chooses."""
    shape = spec.shape[1:]
    for axis, size in enumerate(shape):
        if isinstance(size, str):
            yield f"{spec.name}.{size}", lambda row, axis=axis: _size(row, spec.pad, axis)  # type: ignore[misc]
        elif size in _CHANNELS and len(shape) > _MATRIX:
            for place in range(size):
                yield (
                    f"{spec.name}.mean[{place}]",
                    lambda row, axis=axis, place=place: float(row.take(place, axis).mean(dtype=np.float64)),  # type: ignore[misc]
                )
    yield f"{spec.name}.mean", lambda row: float(_without_padding(row, spec).mean(dtype=np.float64))
    yield f"{spec.name}.std", lambda row: float(_without_padding(row, spec).std(dtype=np.float64))
    if spec.numpy_dtype.kind in "iu":
        yield f"{spec.name}.value", lambda row: _one(_without_padding(row, spec))


def _length(ids: np.ndarray[Any, Any]) -> float:
    """Characters that the model reads of a text."""
    return float(len(ids))


def _unknown_share(ids: np.ndarray[Any, Any]) -> float:
    """The share of characters that the vocabulary does not have."""
    return float((ids == Characters.UNKNOWN).mean())


def _rarity(ids: np.ndarray[Any, Any]) -> float:
    """Mean logarithm of the place of the known characters in the vocabulary, which begins with the most frequent one."""
    known = ids[ids > Characters.UNKNOWN]
    return float(np.log2(known - Characters.UNKNOWN).mean()) if known.size else 0.0


def _size(row: np.ndarray[Any, Any], pad: float, axis: int) -> float:
    """The size of an axis up to the last value that is no padding, because a client pads the rows of its batch."""
    others = tuple(other for other in range(row.ndim) if other != axis)
    used = np.flatnonzero((row != pad).any(axis=others))
    return float(used[-1] + 1) if used.size else 0.0


def _without_padding(row: np.ndarray[Any, Any], spec: TensorSpec) -> np.ndarray[Any, Any]:
    """The row up to its sizes without padding; all of it if it is padding only."""
    sizes = (int(_size(row, spec.pad, axis)) if isinstance(size, str) else size for axis, size in enumerate(spec.shape[1:]))
    part = row[tuple(slice(size) for size in sizes)]
    return part if part.size else row


def _one(row: np.ndarray[Any, Any]) -> float:
    """One value of the row, at a place that its content chooses, so that equal rows give equal values."""
    return float(row.flat[zlib.crc32(row.tobytes()) % row.size])


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0 if math.isnan(value) else math.copysign(1.7e308, value)
