"""Tensors in messages: raw contents as the bytes of all values, or values in the field of their type."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from paddleship.errors import RequestError
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.shipped.serving import binary, datatypes
from paddleship.shipped.serving.binary import BinaryTensor
from paddleship.shipped.serving.columns import RAW_TENSORS, Tensor
from paddleship.shipped.serving.transports.grpc import wire

_RAW_OUTPUT_CONTENTS = 6  # number in ModelInferResponse
_WHOLE = np.dtype(np.int64)
_FIELDS: dict[str, tuple[str, np.dtype[Any]]] = {  # of InferTensorContents, and how its numbers are read
    "BOOL": ("bool_contents", np.dtype(np.bool_)),
    **dict.fromkeys(("INT8", "INT16", "INT32"), ("int_contents", _WHOLE)),
    "INT64": ("int64_contents", _WHOLE),
    "UINT8": ("uint_contents", _WHOLE),
    "FP32": ("fp32_contents", np.dtype(np.float32)),
    "FP64": ("fp64_contents", np.dtype(np.float64)),
    "BYTES": ("bytes_contents", np.dtype(object)),
}


class ContentsTensor(NamedTuple):
    """One input of a request, with its values in the field of its type."""

    item: Any
    is_file: bool

    @property
    def name(self) -> object:
        return self.item.name

    @property
    def datatype(self) -> object:
        return self.item.datatype

    def decode(self) -> np.ndarray[Any, Any] | list[Any]:
        name, sizes = self.item.name, datatypes.check_sizes(self.item.name, _shape(self.item))
        if self.item.datatype not in _FIELDS:
            raise RequestError(f"tensor {name!r} of {self.item.datatype} has no raw contents: send them, since no field holds its type")
        field, dtype = _FIELDS[self.item.datatype]
        if other := [found.name for found, _ in self.item.contents.ListFields() if found.name != field]:
            raise RequestError(f"tensor {name!r} of {self.item.datatype} has {other[0]}: send its values in {field}, or raw")
        values = getattr(self.item.contents, field)
        needed = datatypes.check_values(name, sizes) if dtype.kind == "O" else math.prod(sizes)
        if len(values) != needed:
            raise RequestError(f"tensor {name!r} has {len(values)} values, its shape {sizes} needs {needed}: make them agree")
        if dtype.kind == "O":
            return [*values] if self.is_file else binary.texts(name, values)
        return datatypes.shaped(name, np.fromiter(values, dtype, len(values)), sizes)


def tensors(message: Any, *, files: Collection[str], most_rows: int) -> list[Tensor]:
    """The inputs of a request. Raises RequestError."""
    raw = message.raw_input_contents
    if not raw:
        return [ContentsTensor(item, item.name in files) for item in message.inputs]
    if len(raw) != len(message.inputs) or any(item.HasField("contents") for item in message.inputs):
        raise RequestError(
            f"the request has {len(message.inputs)} inputs and {len(raw)} raw contents: send raw contents for every input, or for none"
        )
    return [
        BinaryTensor(item.name, item.datatype, _shape(item), memoryview(content), most_rows, item.name in files)
        for item, content in zip(message.inputs, raw, strict=True)
    ]


def value(parameter: Any) -> object:
    """What a parameter holds; None if nothing."""
    field = parameter.WhichOneof("parameter_choice")
    return getattr(parameter, field) if field else None


def wants_raw_tensors(message: Any) -> bool:
    """Whether a request switches preprocessing off. Raises RequestError."""
    flag = value(message.parameters[RAW_TENSORS]) if RAW_TENSORS in message.parameters else False
    if not isinstance(flag, bool):
        raise RequestError(f"the parameter {RAW_TENSORS!r} is {str(flag)[:40]!r}: send true or false, or leave it out")
    return flag


def _shape(item: Any) -> list[int]:
    """The shape of an input, or so much of it that it is refused."""
    return list(item.shape[: datatypes.MOST_DIMENSIONS + 1])


def wanted(message: Any, known: Sequence[str]) -> list[str]:
    """The names of the outputs that a request asks for; empty for all. Raises RequestError."""
    names = [item.name for item in message.outputs]
    if unknown := [name for name in names if name not in known]:
        raise RequestError(f"there is no output {unknown[0]!r}: this model gives {', '.join(known)}")
    return names


def encode(message: Any, outputs: Mapping[str, np.ndarray[Any, Any] | Sequence[str]]) -> bytes:
    """An answer with these outputs. Their contents, the last field, are put behind the others as they are, since a message copies twice."""
    for name, values in outputs.items():
        shape = values.shape if isinstance(values, np.ndarray) else [len(values)]
        message.outputs.add(name=name, datatype=datatypes.of_values(values), shape=shape)
    parts = [message.SerializeToString()]
    for content in map(binary.encode, outputs.values()):
        parts += (wire.start_of_bytes(_RAW_OUTPUT_CONTENTS, len(content)), content)
    return b"".join(parts)


def describe(spec: TensorSpec) -> Mapping[str, Any]:
    """One input or output in model metadata."""
    return {"name": spec.name, "datatype": datatypes.DATATYPES[spec.dtype], "shape": datatypes.shape(spec)}
