"""Cases that contain every id of an integer input's range, in few rows: so ids are asked that no held-out row contains.

Inputs of the same shape are walked at the same time. Inputs that may hide an id are walked separately: an input with few values (a mask, a
flag), which has a real row's values while others are walked, and also the opposite values if it has their shape; and a length that a
dimension limits, which has its highest value while others are walked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paddleship.proof.cases.inputs import Case
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import TensorSpec, batch_dimension, sizes_of

_MOST_IDS = 65_536  # of one input; a wider range is walked in even steps
_MOST_ROWS, _MOST_VALUES, _LEAST_ROWS = 16_384, 2**18, 64  # of one walk, over all inputs
_MOST_CASES = 512
_FEW = 16  # inputs with fewer values are walked separately

Span = tuple[int, int]


def walk(specs: Sequence[TensorSpec], seen: Sequence[Batch], *, max_batch: int) -> list[Case]:
    """Cases of `max_batch` rows that hold every value of the integer inputs, in rows as large as the largest single row in `seen`.

    A walk has at most 65,536 ids, 512 cases, 16,384 rows and 2**18 values (but at least 64 rows). Inputs without a range are not walked,
    and no input is walked if one has no batch dimension.
    """
    batch = batch_dimension(specs)
    alone = [one for one in seen if all(array.ndim and len(array) == 1 for array in one.values())]
    if not alone or any(spec.shape[:1] != (batch,) for spec in specs):
        return []
    base = _largest(alone)
    spans = _spans(specs, base)
    cases: list[Case] = []
    for names in _together(spans, base):
        rows = _rows(specs, base, {name: spans[name] for name in names}, most_rows=min(_MOST_ROWS, _MOST_CASES * max_batch))
        rows = _opposed(specs, rows, spans, names)
        family = f"every id of {', '.join(names)}"
        for start in range(0, len(rows[names[0]]), max_batch):
            inputs = {name: array[start : start + max_batch] for name, array in rows.items()}
            cases.append(Case(f"{family}, from row {start}", "ids", inputs, family=family))
    return cases


def _largest(alone: Sequence[Batch]) -> Batch:
    """All single rows of the largest shape, concatenated."""
    largest = max(alone, key=lambda one: sum(array.size for array in one.values()))
    alike = [one for one in alone if all(one[name].shape == array.shape for name, array in largest.items())]
    return {name: np.concatenate([one[name] for one in alike]) for name in largest}


def _spans(specs: Sequence[TensorSpec], base: Batch) -> dict[str, Span]:
    """The first and last integer that each integer input may hold in rows of this size."""
    sizes, spans = sizes_of(specs, base), {}
    for spec in specs:
        low, high = spec.limits(sizes)
        if spec.numpy_dtype.kind in "iu" and low is not None and high is not None and low <= high and base[spec.name].size:
            spans[spec.name] = (int(low), int(high))
    return spans


def _together(spans: Mapping[str, Span], base: Batch) -> list[list[str]]:
    """The names of inputs that are walked at the same time."""
    groups: dict[Any, list[str]] = {}
    for name, (low, high) in spans.items():
        groups.setdefault(name if high - low < _FEW else base[name].shape[1:], []).append(name)
    return list(groups.values())


def _rows(specs: Sequence[TensorSpec], base: Batch, walked: Mapping[str, Span], *, most_rows: int) -> Batch:
    """Rows in which the `walked` inputs take all their values, and the others have those of real rows."""
    most = max(_LEAST_ROWS, min(most_rows, _MOST_VALUES // sum(array[0].size for array in base.values())))
    rows: Batch = {}
    ids = {name: _ids(span, min(_MOST_IDS, most * base[name][0].size)) for name, span in walked.items()}
    count = max(-(-len(ids[name]) // base[name][0].size) for name in walked)
    sizes = sizes_of(specs, base)
    for spec in specs:
        shape = (count, *base[spec.name].shape[1:])
        if spec.name in ids:
            rows[spec.name] = np.resize(ids[spec.name], shape).astype(spec.numpy_dtype)
        elif isinstance(spec.high, str):
            rows[spec.name] = np.full(shape, spec.limits(sizes)[1], spec.numpy_dtype)
        else:
            rows[spec.name] = np.resize(base[spec.name], shape)
    return rows


def _opposed(specs: Sequence[TensorSpec], rows: Batch, spans: Mapping[str, Span], walked: Sequence[str]) -> Batch:
    """The rows, and the same rows with every mask of the same shape inverted, so that each id is not hidden in one of them."""
    ends: dict[str, Span] = {**spans, **{spec.name: (0, 1) for spec in specs if spec.numpy_dtype.kind == "b"}}
    shape = rows[walked[0]].shape
    masks = [
        name
        for name, (low, high) in ends.items()
        if name not in walked and 0 < high - low < _FEW and rows[name].shape == shape and len(shape) > 1
    ]
    if not masks:
        return rows
    turned = {name: (sum(ends[name]) - rows[name].astype(np.int64)).astype(rows[name].dtype) for name in masks}
    return {name: np.concatenate([array, turned.get(name, array)]) for name, array in rows.items()}


def _ids(span: Span, most: int) -> np.ndarray[Any, Any]:
    """The integers of a span; in even steps with both ends if there are more than `most`."""
    low, high = span
    if high - low < most:
        return np.arange(low, high + 1)
    return np.array([low + (high - low) * step // (most - 1) for step in range(most)])
