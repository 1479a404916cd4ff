"""Arrays of a task that decides each position of a row: rows differ in their number of positions, and are padded at their end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paddleship.shipped.computing.task_kinds.registration import Array

PADDING = -100  # the label of no position, and the default ignore_index of Paddle's losses


def stack(rows: Sequence[Any], dtype: type[np.generic] | np.dtype[Any], *, pad: int) -> Array:
    """Rows of different length as one array, of at least one column."""
    arrays = [np.asarray(row, dtype) for row in rows]
    stacked = np.full((len(arrays), max(1, *(len(array) for array in arrays)), *arrays[0].shape[1:]), pad, dtype)
    for index, array in enumerate(arrays):
        stacked[index, : len(array)] = array
    return stacked


def without_padding(labels: Array) -> list[Any]:
    """The labels of rows as lists, each of its own length if shorter ones are padded; `read` makes the same array of them."""
    if labels.ndim != 2 or labels.dtype.kind != "i":
        return list(labels.tolist())
    lengths = (labels != PADDING).sum(1)
    padded = (labels != PADDING) == (np.arange(labels.shape[1]) < lengths[:, None])
    if not padded.all() or lengths.max() < labels.shape[1]:
        return list(labels.tolist())
    return [row[:length].tolist() for row, length in zip(labels, lengths, strict=True)]


def read(labels: Sequence[Any]) -> Array:
    """The labels that `without_padding` made lists of."""
    if isinstance(labels[0], list) and len({len(label) for label in labels}) > 1:
        return stack(labels, np.int64, pad=PADDING)
    return np.asarray(labels)


def fit(labels: Array, width: int) -> Array:
    """The labels of a batch with so many positions."""
    missing = width - labels.shape[1]
    return np.pad(labels, ((0, 0), (0, missing)), constant_values=PADDING) if missing > 0 else labels[:, :width]


def join(batches: Sequence[Array]) -> Array:
    """The outputs for batches of different sizes as one array, with 0 behind the smaller ones."""
    sizes = np.max([batch.shape[1:] for batch in batches], axis=0)
    joined, start = np.zeros((sum(map(len, batches)), *sizes), batches[0].dtype), 0
    for batch in batches:
        joined[(slice(start, start + len(batch)), *map(slice, batch.shape[1:]))] = batch
        start += len(batch)
    return joined


def at(values: Array, labels: Array) -> Array:
    """The values at the positions that have a label, along one axis."""
    known = fit(labels, values.shape[1]) != PADDING
    found: Array = values[known]
    return found


def margin(eager: Array, other: Array) -> float:
    """The largest margin of a position or step of one row that is decided otherwise."""
    decided = other.argmax(-1)
    return float((eager.max(-1) - np.take_along_axis(eager, decided[..., None], -1)[..., 0]).max(initial=0))
