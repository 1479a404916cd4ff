"""Encode and decode tensors in the JSON form of the Open Inference Protocol v2."""

from __future__ import annotations

import binascii
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from paddleship.errors import RequestError
from paddleship.shipped.computing.preprocess.whole_numbers import in_full
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.shipped.serving import datatypes
from paddleship.shipped.serving.binary import BinaryTensor
from paddleship.shipped.serving.columns import Tensor
from paddleship.shipped.serving.datatypes import DATATYPES, DTYPES

_NUMPY_DTYPES = {datatype: np.dtype(dtype) for datatype, dtype in DTYPES.items()}
_FORM = '{"inputs": [{"name", "datatype", "shape", "data"}, …]}'


def describe(spec: TensorSpec) -> dict[str, Any]:
    """One input or output in model metadata; -1 is a dynamic dimension."""
    return {"name": spec.name, "datatype": DATATYPES[spec.dtype], "shape": datatypes.shape(spec)}


def encode_tensor(name: str, values: np.ndarray[Any, Any] | Sequence[str]) -> dict[str, Any]:
    """A tensor, or a column of text, as its JSON object; arrays stay arrays, which orjson writes."""
    if not isinstance(values, np.ndarray):
        return {"name": name, "datatype": "BYTES", "shape": [len(values)], "data": list(values)}
    wide = values.astype(np.float32) if values.dtype == np.float16 else values  # orjson does not write float16
    return {"name": name, "datatype": datatypes.of_values(values), "shape": values.shape, "data": np.ascontiguousarray(wide).ravel()}


def describe_binary(name: str, values: np.ndarray[Any, Any] | Sequence[str], size: int) -> dict[str, Any]:
    """The JSON object of a tensor whose bytes, so many, follow the JSON."""
    shape = values.shape if isinstance(values, np.ndarray) else [len(values)]
    return {"name": name, "datatype": datatypes.of_values(values), "shape": shape, "parameters": {"binary_data_size": size}}


def decode_tensor(item: Mapping[str, Any], *, nulls: bool = False) -> np.ndarray[Any, Any] | list[str]:
    """A JSON object as a tensor; with `nulls`, null is a number that is missing, which is NaN in the tensor. Raises RequestError."""
    name, datatype = item.get("name"), item.get("datatype")
    if datatype not in DTYPES:
        raise RequestError(f"tensor {name!r} has the datatype {datatype!r}: use one of {', '.join(DTYPES)}")
    shape = datatypes.check_sizes(name, item.get("shape"))
    data = item.get("data")
    if not isinstance(data, list):
        raise RequestError(f"tensor {name!r} has no 'data' list: send its values, row after row")
    if datatype == "BYTES":
        if len(shape) != 1 or shape[0] != len(data):
            raise RequestError(f"tensor {name!r} has the shape {shape} and {len(data)} texts: give the shape [{len(data)}]")
        return data
    try:
        array = _with_nan(np.asarray(data)) if nulls else np.asarray(data)
        if array.dtype.kind not in "biuf" and array.size:
            raise ValueError
    except ValueError:
        strange = _kind_of_no_number(data, nulls=nulls)
        what = f"hold {strange}" if strange else "are not numbers in rows of one length"
        raise RequestError(f"the data of tensor {name!r} {what}: send {datatype} values") from None
    like_bools = (array == 0) | (array == 1)
    if datatype != "BOOL" and like_bools.any() and bool in map(type, np.asarray(data, dtype=object)[like_bools]):
        raise RequestError(f"the data of tensor {name!r} hold true or false: send {datatype} values")
    if array.size != math.prod(shape):
        raise RequestError(f"tensor {name!r} has {array.size} values, its shape {shape} needs {math.prod(shape)}: make them agree")
    if array.ndim > 1 and array.shape != tuple(shape):
        raise RequestError(
            f"tensor {name!r} has the shape {shape} and data nested as {list(array.shape)}: make them agree, or send it flat"
        )
    return datatypes.shaped(name, in_full(name, data, array, _NUMPY_DTYPES[datatype]), shape)


def _with_nan(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of numbers and None with NaN in place of None; others unchanged."""
    if array.dtype.kind != "O" or not all(item is None or isinstance(item, int | float) for item in array.flat):
        return array
    return array.astype(np.float64)


def _kind_of_no_number(data: list[Any], *, nulls: bool) -> str | None:
    """What the first value that is no number is, for people; None if all are numbers. Requests may nest deeper than Python recurses."""
    left = [data]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left.extend(reversed(value))
        elif not isinstance(value, int | float) and not (nulls and value is None):
            return "null" if value is None else "text" if isinstance(value, str) else "an object"
    return None


class JsonTensor(NamedTuple):
    """One input of a request, as JSON."""

    item: Mapping[str, Any]
    is_file: bool = False  # texts are base64
    nulls: bool = False  # null is a number that is missing

    @property
    def name(self) -> object:
        return self.item.get("name")

    @property
    def datatype(self) -> object:
        return self.item.get("datatype")

    def decode(self) -> np.ndarray[Any, Any] | list[Any]:
        decoded = decode_tensor(self.item, nulls=self.nulls)
        return [_from_base64(self.name, row, text) for row, text in enumerate(decoded)] if self.is_file else decoded


class RawTensor(NamedTuple):
    """The one input of a request whose body it is: one row of bytes."""

    name: str
    content: bytes | bytearray

    @property
    def datatype(self) -> object:
        return "BYTES"

    def decode(self) -> list[bytes]:
        return [bytes(self.content)]


def _from_base64(name: object, row: int, text: object) -> bytes:
    if not isinstance(text, str):
        raise RequestError(f"row {row} of input {name!r} is {type(text).__name__}: send the bytes as base64 text")
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise RequestError(
            f"row {row} of input {name!r} is not base64 ({str(error)[:60]}): send the bytes as base64 text, without line breaks or a prefix"
        ) from None


def tensors(
    body: Any, binary: bytes | bytearray = b"", *, files: Collection[str] = (), missing: Collection[str] = (), most_rows: int
) -> list[Tensor]:
    """The inputs of an inference request of up to `most_rows` rows, whose JSON `binary` follows. Raises RequestError.

    In JSON, the texts of inputs in `files` are base64, and null is a number that is missing in inputs in `missing`.
    """
    items = body.get("inputs") if isinstance(body, Mapping) else None
    if not isinstance(items, list):
        raise RequestError(f"the request has no 'inputs' list: send {_FORM}")
    if wrong := [item for item in items if not isinstance(item, Mapping)]:
        raise RequestError(f"'inputs' holds {str(wrong[0])[:40]!r}, which is no tensor: send {_FORM}")
    made, start, content = list[Tensor](), 0, memoryview(binary)
    for item in items:
        size, is_file = _binary_size(item), item.get("name") in [*files]  # a list, because the client's name may not be hashable
        if size is None:
            made.append(JsonTensor(item, is_file, item.get("name") in [*missing]))
        else:
            part = content[start : start + size]
            made.append(BinaryTensor(item.get("name"), item.get("datatype"), item.get("shape"), part, most_rows, is_file))
            start += size
    if start != len(binary):
        raise RequestError(
            f"the inputs have {start} bytes by their binary_data_size, and {len(binary)} follow the JSON, which ends at "
            f"Inference-Header-Content-Length: make them agree"
        )
    return made


def _binary_size(item: Mapping[str, Any]) -> int | None:
    """The bytes of a tensor that follow the JSON; None if it is in the JSON. Raises RequestError."""
    parameters = item.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is None:
        return None
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise RequestError(f"tensor {item.get('name')!r} has the binary_data_size {size!r}: give the number of its bytes")
    if "data" in item:
        raise RequestError(f"tensor {item.get('name')!r} has 'data' and a binary_data_size: send its values in one form")
    return size
