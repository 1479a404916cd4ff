"""Convert raw values into the model's inputs; the same code in training, proof and server.

Every input has a kind, one file each with its registration. A preprocess is built from its config, a dict that is part of the candidate.
This package goes into the image, so it needs only numpy.

The config maps inputs to the name, the column and the fields of their kind: `{"inputs": {"ids": {"kind": …, "column": …, …}}}`. The short
form describes one input: `{"kind": …, "column": …, "input": "ids", …}`. An entry may name further inputs, which its kind makes from the
same value. Other inputs are of the default kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from paddleship.errors import CandidateError, DataError, RequestError
from paddleship.shipped.computing.preprocess import registry
from paddleship.shipped.computing.preprocess.registration import InputEncoder
from paddleship.shipped.computing.spec import Dimension, TensorSpec, row_sizes

Example = dict[str, np.ndarray[Any, Any]]  # one row, without the batch dimension
Batch = dict[str, np.ndarray[Any, Any]]
CODE = "code_sha256"  # of a kind from a user's package


class Preprocess:
    """The encoders of all inputs of a model, in the order of its inputs.

    `requests` describes the tensors that a client sends, one for each column. `longest_text` is the number of characters that are read of
    the texts of a row, and `largest_bytes` what the columns of bytes may have in a row; None if no column is of that kind. `missing` are
    the columns in which numbers may be missing, because every encoder that reads them takes that.
    """

    def __init__(self, encoders: Sequence[InputEncoder], dimensions: Sequence[Dimension] = ()) -> None:
        self.encoders = tuple(encoders)
        self.specs = tuple(one.spec for one in encoders)
        self.requests = tuple(_requests(encoders).values())
        self.missing = tuple(spec.name for spec in self.requests if all(one.takes_missing for one in self.reading(spec.name)))
        self._rules = {rule.name: rule for rule in dimensions}
        self._shared = _shared(self.specs)
        self._checks = bool(self._shared) or any(type(one).check is not InputEncoder.check for one in encoders)
        self.longest_text = _sum_over_columns((one.column, one.longest_text) for one in encoders if one.request.dtype == "str")
        self.largest_bytes = _sum_over_columns((one.column, one.largest_bytes) for one in encoders if one.request.dtype == "bytes")

    def encode(self, columns: Mapping[str, Sequence[Any]], *, change: Callable[[Any], Any] | None = None) -> list[Example]:
        """Convert columns into one example per row. Raises RequestError for a value that the model does not accept.

        `change` changes each picture before it is resized, for training.
        """
        encoded = {
            one.spec.name: [one.encode(value) if change is None else one.changed(value, change) for value in columns[one.column]]
            for one in self.encoders
        }
        examples = [dict(zip(encoded, row, strict=True)) for row in zip(*encoded.values(), strict=True)]
        for example in examples if self._checks else ():
            self._check(example, self.encoders)
        return examples

    def collate(self, examples: Sequence[Example]) -> Batch:
        """Stack examples; dynamic dimensions are padded."""
        return {one.spec.name: one.collate([example[one.spec.name] for example in examples]) for one in self.encoders}

    def cuts(self, columns: Mapping[str, Sequence[Any]], examples: Sequence[Example] | None = None) -> list[dict[str, Any]]:
        """The values that `encode` truncates: column, row, length, and how much of it is read.

        It takes less time with `examples`, what `encode` made of the columns.
        """
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for one in self.encoders:
            for row, value in enumerate(columns[one.column]):
                if (examples is None or one.is_full(examples[row][one.spec.name])) and (cut := one.cut(value)):
                    found[one.column, row] = {"input": one.column, "row": row, "length": cut[0], "kept": cut[1]}
        return list(found.values())

    @property
    def sequence(self) -> InputEncoder:
        """The input whose positions have decisions of their own: the first with a dynamic dimension beside the batch, or with any.

        Raises DataError if there is none.
        """
        several = [one for one in self.encoders if len(one.spec.shape) > 1]
        dynamic = [one for one in several if isinstance(one.spec.shape[1], str)]
        if not several:
            raise DataError(
                "no input of the model has positions, and the task decides each of them: declare an input [batch, length] in model.inputs"
            )
        return (dynamic or several)[0]

    def positions(self, columns: Mapping[str, Sequence[Any]]) -> list[list[tuple[int, int]]]:
        """The positions of each row: the part of the column's value, from start to end, that each was made from. Raises DataError."""
        sequence = self.sequence
        return [sequence.positions(value) for value in columns[sequence.column]]

    def width(self, batch: Batch) -> int:
        """The number of positions of each row of a batch, those of padding included. Raises DataError."""
        return int(batch[self.sequence.spec.name].shape[1])

    def accept(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of one raw row as they are stored and as a client sends them. Raises RequestError for a row that is never valid."""
        accepted: dict[str, Any] = {}
        for one in self.encoders:
            accepted.setdefault(one.column, one.accept(row[one.column]))
        ready = [one for one in self.encoders if one.is_input]
        self._check({one.spec.name: accepted[one.column] for one in ready}, ready)
        return accepted

    def reading(self, column: str) -> list[InputEncoder]:
        """The encoders that read a column."""
        return [one for one in self.encoders if one.column == column]

    def malformed(self, column: str, value: Any) -> list[tuple[str, Any]]:
        """Values of a column that a server must refuse, by description, made from a valid one."""
        return list(dict(one for reader in self.reading(column) for one in reader.malformed(value)).items())

    def _check(self, example: Example, encoders: Sequence[InputEncoder]) -> None:
        for dimension, slots in self._shared.items():
            _agree(example, dimension, [slot for slot in slots if slot[0] in example])
        sizes = row_sizes([one.spec for one in encoders], example)
        for one in encoders:
            one.check(example[one.spec.name], sizes, self._rules)


def build(config: Mapping[str, Any], specs: Sequence[TensorSpec], dimensions: Sequence[Dimension] = ()) -> Preprocess:
    """The preprocess that `config` describes, for a model with the inputs `specs` and row sizes `dimensions`. Raises CandidateError."""
    entries = inputs_of(config)
    if strange := set(entries) - {spec.name for spec in specs}:
        raise CandidateError(
            f"the preprocess has the input {min(strange)!r}, which the model does not: run `paddleship run --again prepare`"
        )
    return Preprocess([encoder(spec, entries.get(spec.name)) for spec in specs], dimensions)


def encoder(spec: TensorSpec, entry: Mapping[str, Any] | None) -> InputEncoder:
    """The encoder of one input from its entry in a config, or in the params; without one, of the default kind. Raises CandidateError."""
    if entry is None:
        return registry.default().encoder(column=spec.name, spec=spec)
    fields = {key: value for key, value in entry.items() if key not in ("kind", CODE)}
    return registry.get(entry["kind"]).encoder(spec=spec, **fields)


def inputs_of(config: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The kind, the column and the fields of every input that is not of the default kind by omission."""
    if "inputs" in config:
        return with_further(config["inputs"])
    if "input" not in config:  # all inputs are of the default kind
        return {}
    return {config["input"]: {key: value for key, value in config.items() if key != "input"}}


def with_further(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The entries, and one for each further input that an entry names, as that of a mask beside the ids of a text. Raises DataError."""
    every = {name: dict(entry) for name, entry in entries.items()}
    for name, entry in entries.items():
        for param in registry.get(entry["kind"]).naming("input"):
            if (other := entry.get(param)) is None:
                continue
            if other in every:
                raise DataError(f"preprocess.inputs.{name}.{param} names {other!r}, which has an entry of its own: name another input")
            every[other] = {**entry, "gives": param}
    return every


def _sum_over_columns(sizes: Iterable[tuple[str, int]]) -> int | None:
    """The sum of the largest size of each column; None without any."""
    largest: dict[str, int] = {}
    for column, size in sizes:
        largest[column] = max(size, largest.get(column, 0))
    return sum(largest.values()) if largest else None


def _requests(encoders: Sequence[InputEncoder]) -> dict[str, TensorSpec]:
    """The form of every column. Raises DataError if two inputs read one column in different forms."""
    first: dict[str, InputEncoder] = {}
    for one in encoders:
        other = first.setdefault(one.column, one)
        if (one.request.dtype, one.request.shape) != (other.request.dtype, other.request.shape):
            forms = " and ".join(f"{item.request.dtype}{list(item.request.shape)}" for item in (other, one))
            raise DataError(
                f"inputs {other.spec.name!r} and {one.spec.name!r} read the column {one.column!r} in two forms ({forms}): let data.reader "
                "return a column for each"
            )
    return {column: one.request for column, one in first.items()}


def _shared(specs: Sequence[TensorSpec]) -> dict[str, list[tuple[str, int]]]:
    """Dynamic dimensions of a row that occur several times, with input and axis of each, without the batch dimension."""
    slots: dict[str, list[tuple[str, int]]] = {}
    for spec in specs:
        for axis, size in enumerate(spec.shape[1:]):
            if isinstance(size, str):
                slots.setdefault(size, []).append((spec.name, axis))
    return {dimension: several for dimension, several in slots.items() if len(several) > 1}


def _agree(example: Example, dimension: str, slots: Sequence[tuple[str, int]]) -> None:
    """Raises RequestError if inputs of a row have different sizes in a dimension that they share."""
    sizes = [example[name].shape[axis] for name, axis in slots]
    if odd := next((index for index, size in enumerate(sizes) if size != sizes[0]), 0):
        raise RequestError(
            f"inputs {slots[0][0]!r} and {slots[odd][0]!r} share the dimension {dimension!r}, and have sizes {sizes[0]} and "
            f"{sizes[odd]} in one row",
            "send the same size, or name the dimensions differently in model.inputs",
        )
