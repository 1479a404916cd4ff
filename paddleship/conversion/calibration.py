"""Real rows for calibration: of the training part only, never of the rows that prove a candidate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from paddleship.data import dataset
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.runtimes import bucketed
from paddleship.shipped.computing.spec import TensorSpec, sizes_of

_BATCH = 4  # rows of a batch are padded to the longest, so small batches hold little padding


def batches(prepared: Path, *, count: int) -> list[Batch]:
    """At most `count` training rows, in small batches. Raises DataError."""
    preprocess, _, _ = dataset.read_preprocess(prepared)
    rows = dataset.read(prepared, "train")
    examples = dataset.encode(preprocess, rows.take(range(min(count, len(rows)))))
    return [preprocess.collate(examples[start : start + _BATCH]) for start in range(0, len(examples), _BATCH)]


def fitting(batches: Sequence[Batch], specs: Sequence[TensorSpec], fixed: Mapping[str, int]) -> list[Batch]:
    """The batches that fit a program of fixed sizes, padded to them; larger batches are split into rows."""
    if not fixed:
        return list(batches)
    first = specs[0]
    rows = [{name: array[row : row + 1] for name, array in batch.items()} for batch in batches for row in range(len(batch[first.name]))]
    return [
        {spec.name: bucketed.pad(row[spec.name], spec, fixed) for spec in specs}
        for row in rows
        if all(size <= fixed.get(name, size) for name, size in sizes_of(specs, row).items())
    ]
