"""Rows of the smallest and the largest size that a server accepts: from the data, otherwise made from real rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from paddleship.data import dataset
from paddleship.shipped.computing.preprocess import Example, Preprocess
from paddleship.shipped.computing.spec import Dimension, TensorSpec, row_sizes, sizes_of


def rows(
    prepared: Path, preprocess: Preprocess, specs: Sequence[TensorSpec], dimensions: Sequence[Dimension], examples: Sequence[Example]
) -> dict[str, Example]:
    """An example for each end of every dimension that `examples` do not reach, by description."""
    sizes = [sizes_of(specs, preprocess.collate([example])) for example in examples]
    extremes: dict[str, Example] = {}
    for rule in dimensions:
        ends = {"smallest": rule.smallest} | ({} if rule.high is None else {"largest": rule.nearest(rule.high)})
        for word, size in ends.items():
            if all(one[rule.name] != size for one in sizes):
                nearest = min(range(len(examples)), key=lambda row: abs(sizes[row][rule.name] - size))
                real = _real(prepared, preprocess, rule.name, size)
                extremes[f"{word} {rule.name} ({size})"] = real or resized(examples[nearest], specs, rule.name, size)
    return extremes


def resized(example: Example, specs: Sequence[TensorSpec], name: str, size: int) -> Example:
    """The row with another size in one dimension: values are repeated or cut off, and kept within limits that depend on the size."""
    changed = dict(example)
    for spec in specs:
        for axis, dimension in enumerate(spec.shape[1:]):
            if dimension == name:
                changed[spec.name] = np.take(changed[spec.name], np.arange(size) % changed[spec.name].shape[axis], axis)
    sizes = row_sizes(specs, changed)
    for spec in specs:
        if isinstance(spec.low, str) or isinstance(spec.high, str):
            changed[spec.name] = np.clip(changed[spec.name], *spec.limits(sizes)).astype(spec.numpy_dtype)
    return changed


def _real(prepared: Path, preprocess: Preprocess, name: str, size: int) -> Example | None:
    """A row of any part of the data with this size; None if there is none, or if columns are not the model's inputs yet."""
    encoder, axis = next(
        (one, axis) for one in preprocess.encoders for axis, dimension in enumerate(one.spec.shape[1:]) if dimension == name
    )
    for split in dataset.SPLITS:
        part = dataset.read(prepared, split)
        shapes = [np.shape(value) for value in part.columns[encoder.column]] if encoder.is_input else []
        if (row := next((row for row, shape in enumerate(shapes) if shape[axis] == size), None)) is not None:
            return dataset.encode(preprocess, part.take([row]))[0]
    return None
