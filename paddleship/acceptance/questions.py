"""Requests of a client: raw rows in the batches that were proven, in the form of the server's metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from paddleship.acceptance.datatypes import array_type, datatype, in_json
from paddleship.acceptance.transport import PlainRequest, Tensors

_NUMBER_BYTES = 22  # of a float32 in the client's request: all digits of a float64 and a separator


@dataclass(frozen=True)
class Question:
    """One batch of rows; `place` is the index of its case in the evidence. Its tensors are made on demand."""

    place: int
    columns: Mapping[str, Sequence[Any]]
    inputs: Sequence[Mapping[str, Any]]
    pads: Mapping[str, float]

    @property
    def rows(self) -> int:
        return len(self.columns[self.inputs[0]["name"]])

    @property
    def tensors(self) -> Tensors:
        """Arrays of the types in the metadata; shorter rows of a batch are padded."""
        return {
            item["name"]: _stacked(self.columns[item["name"]], array_type(item["datatype"]), self.pads.get(item["name"], 0))
            for item in self.inputs
        }

    @property
    def lacks_numbers(self) -> bool:
        """Whether a number is missing, which is NaN in binary forms and null in JSON."""
        return any(array.dtype.kind == "f" and np.isnan(array).any() for array in self.tensors.values())

    @cached_property
    def body_bytes(self) -> int:
        """An upper estimate of the size of the request."""
        return sum(_json_bytes(array) for array in self.tensors.values())


def questions(batches: Sequence[Mapping[str, Sequence[Any]]], metadata: Mapping[str, Any], pads: Mapping[str, float]) -> list[Question]:
    """A question for each batch of raw columns."""
    return [Question(place, columns, metadata["inputs"], pads) for place, columns in enumerate(batches)]


def within(asked: Sequence[Question], *, body_bytes: int, total_bytes: int) -> list[Question]:
    """The questions that fit into a body, and together into the total, large and small in turn; at least one that fits into a body."""
    fitting = [question for question in asked if question.body_bytes <= body_bytes]
    chosen: list[Question] = []
    for question in mixed(fitting, count=len(fitting)):
        if not chosen or sum(one.body_bytes for one in chosen) + question.body_bytes <= total_bytes:
            chosen.append(question)
    return sorted(chosen, key=lambda question: question.place)


def mixed(asked: Sequence[Question], *, count: int) -> list[Question]:
    """Some questions of all batch sizes, including the largest and the smallest, large and small in turn."""
    by_size = sorted(asked, key=lambda question: question.rows)
    chosen = [by_size[index] for index in sorted({*np.linspace(0, len(by_size) - 1, min(count, len(by_size))).astype(int).tolist()})]
    half = len(chosen) // 2
    return [question for pair in zip(chosen[:half], reversed(chosen[half:]), strict=False) for question in pair] + (
        [chosen[half]] if len(chosen) % 2 else []
    )


def plain_request(tensors: Tensors) -> PlainRequest:
    """A request as a person would write it: numbers with the digits of their type, bytes as base64."""
    return {
        "inputs": [
            {"name": name, "datatype": datatype(array), "shape": list(array.shape), "data": _readable(array)}
            for name, array in tensors.items()
        ]
    }


def repeated(tensors: Tensors, rows: int) -> Tensors:
    """The batch with its rows repeated until there are `rows`."""
    return {name: np.resize(array, (rows, *array.shape[1:])) for name, array in tensors.items()}


def repeated_bytes(question: Question, rows: int) -> int:
    """An upper estimate of the size of a request with the rows of a question repeated until there are `rows`."""
    return -(-question.body_bytes // question.rows) * rows


def _readable(array: np.ndarray[Any, Any]) -> list[Any]:
    if array.dtype.kind == "f":
        return [None if np.isnan(value) else json.loads(str(value)) for value in array.ravel()]
    return list(in_json(array).ravel().tolist())


def _json_bytes(array: np.ndarray[Any, Any]) -> int:
    if array.dtype.kind == "O":
        return len(json.dumps(in_json(array).tolist()))
    return _NUMBER_BYTES * array.size


def _stacked(values: Sequence[Any], dtype: np.dtype[Any], pad: float) -> np.ndarray[Any, Any]:
    if dtype.kind == "O":
        return np.array([*values], dtype=object)
    rows = [np.asarray(value, dtype) for value in values]
    shape = tuple(max(sizes) for sizes in zip(*(row.shape for row in rows), strict=True))
    batch = np.full((len(rows), *shape), pad, dtype)
    for index, row in enumerate(rows):
        batch[index, *(slice(size) for size in row.shape)] = row  # type: ignore[index]
    return batch
