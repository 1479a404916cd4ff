"""Inputs that find differences: rows in every shape that matters, and values at the edge of what a model takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from paddleship.preprocess import Batch, Example
from paddleship.spec import TensorSpec

Group = Literal["rows", "edge", "past"]

_ALONE = 8  # rows that are also asked alone, to compare with their answer in a batch
_PRIME = 7
_SIZES = (32, 16, 64, 7, 1)  # of a dynamic dimension nobody told us anything about


@dataclass(frozen=True)
class Case:
    """One batch that every model under proof answers.

    `group` says where it comes from: `rows` are real or drawn rows, `edge` extreme values, `past` cases that
    were worst in an earlier run. `rows` are the rows in it by number, empty where it is made of none; a row
    that appears in several cases has the same values in each.
    """

    name: str
    group: Group
    inputs: Batch = field(repr=False)
    rows: tuple[int, ...] = ()


def from_rows(
    examples: Sequence[Example], specs: Sequence[TensorSpec], collate: Callable[[Sequence[Example]], Batch], *, max_batch: int
) -> list[Case]:
    """Cases over encoded rows: alone, in batches of 2, 4, 8, … and `max_batch`, of 7, and all of them.

    Alone are the shortest, middle and longest row along every dynamic dimension, and a few more; the shortest
    row is also paired with the longest.
    """
    chosen: dict[str, tuple[int, ...]] = {}
    extremes: list[int] = []
    for name, order in _orders(examples, specs).items():
        for word, row in (("shortest", order[0]), ("middle", order[len(order) // 2]), ("longest", order[-1])):
            chosen[f"{word} {name}, alone"] = (row,)
            extremes.append(row)
        chosen[f"shortest and longest {name}"] = (order[0], order[-1])
    for row in np.linspace(0, len(examples) - 1, min(_ALONE, len(examples))).astype(int).tolist():
        if row not in extremes:
            chosen[f"row {row} alone"] = (row,)
    for count in sorted({2, _PRIME, *(2**power for power in range(2, max_batch.bit_length()) if 2**power < max_batch)}):
        if len(examples) >= count:
            chosen[f"batch of {count}"] = tuple(range(count))
    if len(examples) < max_batch:
        chosen[f"batch of {max_batch}"] = tuple(np.resize(range(len(examples)), max_batch).tolist())
    for start in range(0, len(examples), max_batch):
        end = min(start + max_batch, len(examples))
        chosen[f"rows {start} to {end - 1}"] = tuple(range(start, end))
    return [Case(name, "rows", collate([examples[row] for row in rows]), rows) for name, rows in chosen.items()]


def generate(specs: Sequence[TensorSpec], *, seed: int, max_batch: int, sizes: Mapping[str, int] | None = None) -> list[Case]:
    """Cases for a model whose data nobody has: drawn rows in batches of 1, 2, 7 and `max_batch`, then other sizes, then edges.

    `sizes` fixes dynamic dimensions (other than the batch) whose size is known. A model may refuse some of them.
    """
    names = [name for name in _dimensions(specs) if name not in (sizes or {})]
    known = dict(sizes or {}) | dict.fromkeys(names, _SIZES[0])
    pool = _draw(specs, max_batch, known, np.random.default_rng(seed))
    cases = [
        Case(f"batch of {len(rows)}" if len(rows) > 1 else f"row {rows[0]} alone", "rows", _take(pool, rows), rows)
        for rows in [(0,), (max_batch - 1,), *(tuple(range(count)) for count in (2, _PRIME, max_batch) if 1 < count <= max_batch)]
    ]
    variants = [{name: size} for size in _SIZES[1:] for name in names]
    if len(names) > 1:
        variants += [dict.fromkeys(names, size) for size in _SIZES[1:]]
    for number, variant in enumerate(variants):
        words = ", ".join(f"{name} {size}" for name, size in variant.items())
        cases.append(Case(f"batch of 2, {words}", "rows", _draw(specs, 2, {**known, **variant}, np.random.default_rng([seed, number]))))
    return cases + edges(specs, [case.inputs for case in cases[:3]])


def edges(specs: Sequence[TensorSpec], seen: Sequence[Batch]) -> list[Case]:
    """Two rows each of zeros, lowest, highest, first and last, and padding, in the range that is declared or else was `seen`.

    They have the size of the largest row that was seen, so that a length beside it can be the highest one.
    """
    largest = max(seen, key=lambda batch: sum(batch[spec.name][:1].size for spec in specs))
    like = {spec.name: largest[spec.name][:1].repeat(2, axis=0) for spec in specs}
    ranges = {spec.name: _range(spec, (batch[spec.name] for batch in seen)) for spec in specs}
    made = {
        "zeros": {name: np.clip(np.zeros_like(array), *ranges[name]) for name, array in like.items()},
        "lowest values": {name: np.full_like(array, ranges[name][0]) for name, array in like.items()},
        "highest values": {name: np.full_like(array, ranges[name][1]) for name, array in like.items()},
        "lowest and highest values in turn": {name: _in_turn(array, *ranges[name]) for name, array in like.items()},
        "padding only": {spec.name: np.full_like(like[spec.name], _padding(spec)) for spec in specs},
    }
    distinct: dict[bytes, Case] = {}
    for name, inputs in made.items():
        distinct.setdefault(b"".join(array.tobytes() for array in inputs.values()), Case(name, "edge", inputs))
    return list(distinct.values())


def _dimensions(specs: Sequence[TensorSpec]) -> list[str]:
    """Names of the dynamic dimensions besides the batch."""
    return list(dict.fromkeys(size for spec in specs for size in spec.shape[1:] if isinstance(size, str)))


def _orders(examples: Sequence[Example], specs: Sequence[TensorSpec]) -> dict[str, list[int]]:
    """Rows from small to large along every dynamic dimension besides the batch."""
    orders: dict[str, list[int]] = {}
    for spec in specs:
        for axis, name in enumerate(spec.shape[1:]):
            if isinstance(name, str):
                orders.setdefault(name, np.argsort([example[spec.name].shape[axis] for example in examples], kind="stable").tolist())
    return orders


def _range(spec: TensorSpec, arrays: Iterable[np.ndarray[Any, Any]]) -> tuple[Any, Any]:
    """Lowest and highest value: declared, or seen."""
    finite = [array[np.isfinite(array)] for array in arrays]
    low = spec.low if spec.low is not None else min((array.min() for array in finite if array.size), default=0)
    high = spec.high if spec.high is not None else max((array.max() for array in finite if array.size), default=1)
    return spec.numpy_dtype.type(low), spec.numpy_dtype.type(high)


def _padding(spec: TensorSpec) -> Any:
    """What fills an input up where its size changes; the nearest declared value for one that is never padded, such as a length."""
    grows = any(isinstance(size, str) for size in spec.shape[1:])
    return spec.pad if grows else np.clip(spec.pad, spec.low, spec.high)


def _in_turn(array: np.ndarray[Any, Any], low: Any, high: Any) -> np.ndarray[Any, Any]:
    turns = np.arange(array.size).reshape(array.shape) % 2 == 0
    return np.where(turns, low, high).astype(array.dtype)


def _draw(specs: Sequence[TensorSpec], count: int, sizes: Mapping[str, int], random: np.random.Generator) -> Batch:
    """Random rows: floats from a normal distribution or evenly from their range, whole numbers from theirs (0 or 1 without one)."""
    batch = {}
    for spec in specs:
        shape = (count, *(sizes[size] if isinstance(size, str) else size for size in spec.shape[1:]))
        drawn: np.ndarray[Any, Any]
        if spec.numpy_dtype.kind != "f":
            low = int(spec.low) if spec.low is not None else 0
            drawn = random.integers(low, int(spec.high) if spec.high is not None else low + 1, shape, endpoint=True)
        elif spec.low is not None and spec.high is not None:
            drawn = random.uniform(spec.low, spec.high, shape)
        else:
            drawn = np.clip(random.normal(size=shape), spec.low, spec.high)
        batch[spec.name] = drawn.astype(spec.numpy_dtype)
    return batch


def _take(batch: Batch, rows: Sequence[int]) -> Batch:
    return {name: array[list(rows)] for name, array in batch.items()}
