"""Rows with missing numbers, made from held-out rows that may have none, so that a proof covers how the preprocess fills them.

`verify` encodes them and asks every candidate; `accept` makes the same rows again, and sends them to the server as a client would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from paddleship.data.dataset import Rows
from paddleship.proof.cases.inputs import Case
from paddleship.shipped.computing.preprocess import Batch, Example, Preprocess

_MOST = 64  # numbers of a column that are left out one by one, at even distances


def made_from(rows: Rows, preprocess: Preprocess) -> Rows:
    """One row without any number in the columns that may lack them, and one for each number that lacks it; empty if none may."""
    if not preprocess.missing:
        return rows.take([])
    sources, changes = [0], [{column: np.full_like(_array(rows.columns[column][0]), np.nan) for column in preprocess.missing}]
    for column in preprocess.missing:
        size = _array(rows.columns[column][0]).size
        for position in np.linspace(0, size - 1, min(size, _MOST)).astype(int).tolist():
            source = len(sources) % len(rows)
            changed = _array(rows.columns[column][source])
            changed.flat[position] = np.nan
            sources.append(source)
            changes.append({column: changed})
    taken = rows.take(sources)
    columns = {
        name: [change.get(name, value) for change, value in zip(changes, values, strict=True)] for name, values in taken.columns.items()
    }
    return Rows(columns, taken.labels, [f"{key}, made {number}" for number, key in enumerate(taken.keys)])


def cases(examples: Sequence[Example], collate: Callable[[Sequence[Example]], Batch], *, first: int, max_batch: int) -> list[Case]:
    """The rows of `made_from`, encoded: the first alone, and all in batches. Their numbers begin at `first`, after those of real rows."""
    batches = [range(1)] if examples else []
    batches += [range(start, min(start + max_batch, len(examples))) for start in range(0, len(examples), max_batch)]
    return [
        Case(
            "no number known, alone" if place == 0 else f"missing numbers, batch {place}",
            "rows",
            collate([examples[index] for index in batch]),
            made=tuple(first + index for index in batch),
        )
        for place, batch in enumerate(batches)
    ]


def _array(value: object) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array(value, np.float64)
