"""Real rows for those who must know the range of every value in a model: of the training part alone, never of the rows that prove it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from paddleship.data import dataset
from paddleship.shipped.common.preprocess import Batch
from paddleship.shipped.common.spec import TensorSpec, sizes_of
from paddleship.shipped.runtimes import bucketed

_BATCH = 4  # rows of a batch are padded to the longest: few of them keep padding from passing for data


def batches(prepared: Path, *, count: int) -> list[Batch]:
    """At most `count` rows that the model was trained on, in small batches. Raises DataError."""
    preprocess, _, _ = dataset.read_preprocess(prepared)
    rows = dataset.read(prepared, "train")
    examples = dataset.encode(preprocess, rows.take(range(min(count, len(rows)))))
    return [preprocess.collate(examples[start : start + _BATCH]) for start in range(0, len(examples), _BATCH)]


def fitting(given: Sequence[Batch], specs: Sequence[TensorSpec], fixed: Mapping[str, int]) -> list[Batch]:
    """Those of the batches that a program of fixed sizes takes, padded to them; larger batches row by row."""
    if not fixed:
        return list(given)
    first = specs[0]
    rows = [{name: array[row : row + 1] for name, array in batch.items()} for batch in given for row in range(len(batch[first.name]))]
    return [
        {spec.name: bucketed.pad(row[spec.name], spec, fixed) for spec in specs}
        for row in rows
        if all(size <= fixed.get(name, size) for name, size in sizes_of(specs, row).items())
    ]
