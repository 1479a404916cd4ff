"""The cases of a proof: rows in every shape that matters, and edge cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from paddleship.proof.cases import batches
from paddleship.shipped.computing.preprocess import Batch, Example
from paddleship.shipped.computing.spec import Dimension, TensorSpec, batch_axis, batch_dimension, row_dimensions, sizes_of

Group = Literal["rows", "edge", "ids", "past"]

_ALONE = 8  # rows that are also asked alone, to compare with their answer in a batch
_SIZES = (32, 16, 64, 7, 1)  # tried for a dynamic dimension without declared sizes
_USABLE = 2**16  # the largest size that is tried to find one with a valid value for each input


@dataclass(frozen=True)
class Case:
    """One batch that the reference and every model under test answer.

    `group`: `rows` are real or drawn rows, `edge` edge cases, `ids` rows that walk through a range, `past` regression cases. `rows` has the
    numbers of the rows, empty for other values; a row has the same values in every case. Cases of the same `family` are judged together.
    `made` has the numbers of rows that were made from raw rows and can be asked raw, see `missing_rows`; they have no labels of their own.
    """

    name: str
    group: Group
    inputs: Batch = field(repr=False)
    rows: tuple[int, ...] = ()
    family: str = ""
    made: tuple[int, ...] = ()

    @property
    def raw(self) -> tuple[int, ...]:
        """The numbers of the rows of the case that a client can send."""
        return self.rows or self.made


def from_rows(
    examples: Sequence[Example],
    specs: Sequence[TensorSpec],
    collate: Callable[[Sequence[Example]], Batch],
    *,
    max_batch: int,
    limits: Mapping[str, Example] | None = None,
) -> list[Case]:
    """Cases of encoded rows: in batches of every size that `batches.sizes` names, until each row was asked.

    Asked alone: the shortest, middle and longest row along every dynamic dimension, the rows of `limits` (rows of the smallest and largest
    size that a server accepts, by name), and a few more. The shortest row is asked with the longest, and all of these are in one batch of
    `max_batch`.
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
    for rows in batches.arrange(len(examples), max_batch):
        name = f"batch of {len(rows)}" if len(rows) > 1 else f"row {rows[0]} alone"
        chosen.setdefault(name if len(rows) == 1 or name not in chosen else f"rows {rows[0]} to {rows[-1]}", rows)
    cases = [Case(name, "rows", collate([examples[row] for row in rows]), rows) for name, rows in chosen.items()]
    return cases + _at_limits(examples, extremes, limits or {}, collate, max_batch)


def generate(
    specs: Sequence[TensorSpec],
    *,
    seed: int,
    max_batch: int,
    sizes: Mapping[str, int] | None = None,
    dimensions: Sequence[Dimension] = (),
) -> list[Case]:
    """Cases for a model without data: drawn rows in the same batches as real ones, then other sizes, then edge cases.

    `sizes` fixes dynamic dimensions (except the batch) whose size is known. `dimensions` has the allowed sizes; the largest one is asked
    alone and in the largest batch. The model may reject sizes that are not declared. Without a batch there are two drawn cases. Rows
    have numbers only if the batch is first in every input that has it.
    """
    rules = {rule.name: rule for rule in dimensions}
    names = [name for name in row_dimensions(specs) if name not in (sizes or {})]
    known = _usable(specs, dict(sizes or {}) | {name: _nearest(rules, name, _SIZES[0]) for name in names}, rules)
    pool = _draw(specs, max_batch, known, np.random.default_rng(seed))
    asked = [(0,), (max_batch - 1,), *(rows for rows in batches.arrange(max_batch, max_batch) if len(rows) > 1)]
    batch = batch_dimension(specs)
    numbered = all(batch_axis(spec, batch) in (0, None) for spec in specs)
    cases = [
        Case(
            f"batch of {len(rows)}" if len(rows) > 1 else f"row {rows[0]} alone",
            "rows",
            _take(specs, pool, rows),
            rows if numbered else (),
        )
        for rows in asked
    ]
    if batch is None:
        again = _draw(specs, 1, known, np.random.default_rng([seed, seed + 1]))
        cases = [Case("drawn values", "rows", pool), Case("other drawn values", "rows", again)]
    for number, (count, variant) in enumerate(_variants(names, rules, max_batch)):
        changed = {**known, **variant}
        if changed != known and _possible(specs, changed):
            case_name = ", ".join(f"{name} {size}" for name, size in variant.items())
            case_name = case_name if batch is None else f"batch of {count}, {case_name}" if count > 1 else f"a row alone, {case_name}"
            if case_name not in {case.name for case in cases}:  # without a batch, numbers of rows make no difference
                drawn = _draw(specs, count, changed, np.random.default_rng([seed, number]))
                cases.append(Case(case_name, "rows", drawn))
    return cases + edges(specs, [case.inputs for case in cases])


def edges(specs: Sequence[TensorSpec], seen: Sequence[Batch]) -> list[Case]:
    """Two rows each of zeros, lowest, highest, lowest and highest in turn, and padding, in the declared range, otherwise in that of `seen`.

    They have the size of the largest row in `seen`, so that a length can have its highest value.
    """
    ones = [_take(specs, batch, (0,)) for batch in seen]
    largest = max(ones, key=lambda batch: sum(batch[spec.name].size for spec in specs))
    like = _take(specs, largest, (0, 0))
    sizes = sizes_of(specs, like)
    ranges = {spec.name: _range(spec, sizes, (batch[spec.name] for batch in seen)) for spec in specs}
    made = {
        "zeros": {name: np.asarray(np.clip(np.zeros_like(array), *ranges[name])) for name, array in like.items()},
        "lowest values": {name: np.full_like(array, ranges[name][0]) for name, array in like.items()},
        "highest values": {name: np.full_like(array, ranges[name][1]) for name, array in like.items()},
        "lowest and highest values in turn": {name: _in_turn(array, *ranges[name]) for name, array in like.items()},
        "padding only": {spec.name: np.full_like(like[spec.name], _padding(spec, sizes, batch_dimension(specs))) for spec in specs},
    }
    distinct: dict[bytes, Case] = {}
    for name, inputs in made.items():
        distinct.setdefault(b"".join(array.tobytes() for array in inputs.values()), Case(name, "edge", inputs))
    return list(distinct.values())


def _at_limits(
    examples: Sequence[Example],
    extremes: Sequence[int],
    limits: Mapping[str, Example],
    collate: Callable[[Sequence[Example]], Batch],
    max_batch: int,
) -> list[Case]:
    """The rows of `limits` alone, and in the largest batch with the shortest and longest of the other rows."""
    cases = [Case(f"{name}, alone", "rows", collate([example])) for name, example in limits.items()]
    rows = [*limits.values(), *(examples[row] for row in dict.fromkeys(extremes))]
    for start in range(0, len(rows), max_batch):
        some = rows[start : start + max_batch]
        some += [examples[row % len(examples)] for row in range(max_batch - len(some))]
        number = f", part {start // max_batch + 1}" if len(rows) > max_batch else ""
        cases.append(Case(f"batch of {max_batch} with all shortest and longest rows{number}", "rows", collate(some)))
    return cases


def _orders(examples: Sequence[Example], specs: Sequence[TensorSpec]) -> dict[str, list[int]]:
    """Rows sorted by size along every dynamic dimension except the batch."""
    orders: dict[str, list[int]] = {}
    for spec in specs:
        for axis, name in enumerate(spec.shape[1:]):
            if isinstance(name, str):
                orders.setdefault(name, np.argsort([example[spec.name].shape[axis] for example in examples], kind="stable").tolist())
    return orders


def _variants(names: Sequence[str], rules: Mapping[str, Dimension], max_batch: int) -> list[tuple[int, dict[str, int]]]:
    """Numbers of rows with other sizes: of one dimension, of all dimensions, and the largest allowed sizes."""
    variants: list[tuple[int, dict[str, int]]] = []
    for size in _SIZES[1:]:
        variants += [(2, {name: _nearest(rules, name, size)}) for name in names]
        variants += [(2, {name: _nearest(rules, name, size) for name in names})] if len(names) > 1 else []
    variants += [(2, {name: rules[name].smallest}) for name in names if name in rules]
    largest = {name: rules[name].nearest(high) for name in names if name in rules and (high := rules[name].high) is not None}
    variants += [(count, largest) for count in sorted({1, max_batch}) if largest]
    distinct = {(count, tuple(variant.items())): (count, variant) for count, variant in variants}
    return list(distinct.values())


def _nearest(rules: Mapping[str, Dimension], name: str, size: int) -> int:
    return rules[name].nearest(size) if name in rules else size


def _usable(specs: Sequence[TensorSpec], sizes: dict[str, int], rules: Mapping[str, Dimension]) -> dict[str, int]:
    """These sizes, or larger ones if they leave an input without a valid value."""
    changed, factor = sizes, 1
    while not _possible(specs, changed) and factor < _USABLE:
        factor *= 2
        changed = {name: _nearest(rules, name, size * factor) for name, size in sizes.items()}
    return changed


def _possible(specs: Sequence[TensorSpec], sizes: Mapping[str, int]) -> bool:
    """Whether each input has a valid value in rows of these sizes."""
    ranges = [spec.limits(sizes) for spec in specs]
    return all(low is None or high is None or low <= high for low, high in ranges)


def _range(spec: TensorSpec, sizes: Mapping[str, int], arrays: Iterable[np.ndarray[Any, Any]]) -> tuple[Any, Any]:
    """Lowest and highest value: declared, otherwise seen."""
    finite = [array[np.isfinite(array)] for array in arrays]
    low, high = spec.limits(sizes)
    low = low if low is not None else min((array.min() for array in finite if array.size), default=0)
    high = high if high is not None else max((array.max() for array in finite if array.size), default=1)
    if spec.numpy_dtype.kind in "iu":
        held = np.iinfo(spec.numpy_dtype)
        low, high = max(int(low), held.min), min(int(high), held.max)
    return spec.numpy_dtype.type(low), spec.numpy_dtype.type(high)


def _padding(spec: TensorSpec, sizes: Mapping[str, int], batch: str | None) -> Any:
    """The padding value; for an input that is never padded, such as a length, the nearest declared value."""
    grows = any(isinstance(size, str) and size != batch for size in spec.shape)
    return spec.pad if grows else np.clip(spec.pad, *spec.limits(sizes))


def _in_turn(array: np.ndarray[Any, Any], low: Any, high: Any) -> np.ndarray[Any, Any]:
    turns = np.arange(array.size).reshape(array.shape) % 2 == 0
    return np.where(turns, low, high).astype(array.dtype)


def _draw(specs: Sequence[TensorSpec], count: int, sizes: Mapping[str, int], random: np.random.Generator) -> Batch:
    """Random rows: floats from a normal distribution or uniformly from their range, integers from theirs (0 or 1 without a range)."""
    batch: Batch = {}
    rows = batch_dimension(specs)
    for spec in specs:
        shape = tuple(count if size == rows else sizes[size] if isinstance(size, str) else size for size in spec.shape)
        batch[spec.name] = draw_values(spec, shape, sizes, random)
    return batch


def draw_values(spec: TensorSpec, shape: tuple[int, ...], sizes: Mapping[str, int], random: np.random.Generator) -> np.ndarray[Any, Any]:
    """Random values of an input."""
    low, high = spec.limits(sizes)
    drawn: np.ndarray[Any, Any]
    if spec.numpy_dtype.kind != "f":
        first = int(low) if low is not None else 0
        drawn = np.asarray(random.integers(first, int(high) if high is not None else first + 1, shape, endpoint=True))
    elif low is not None and high is not None:
        drawn = np.asarray(random.uniform(low, high, shape))
    else:
        drawn = np.clip(np.asarray(random.normal(size=shape)), low, high)
    return np.asarray(drawn, spec.numpy_dtype)


def _take(specs: Sequence[TensorSpec], batch: Batch, rows: Sequence[int]) -> Batch:
    """Some rows of each input that has rows, and the other inputs unchanged."""
    counted = batch_dimension(specs)
    axes = {spec.name: batch_axis(spec, counted) for spec in specs}
    return {name: array if (axis := axes[name]) is None else np.take(array, list(rows), axis=axis) for name, array in batch.items()}
