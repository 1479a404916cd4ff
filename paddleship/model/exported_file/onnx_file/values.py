"""The values of a graph while it is written: arrays that are known, lists of sizes that are known in part, and Paddle's own."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

Array = np.ndarray[Any, Any]
Size = Any  # an int, or a Paddle value without dimensions

IN_FLOAT32 = "export the model in float32; optimize makes candidates in lower precision of that"
_HALF = ("float16", "bfloat16")
_EXACT = 2**53  # Paddle keeps the numbers of a constant as float64
_SHORT = 64  # elements of an array that is a constant of the program, not a parameter


class Unsupported(Exception):
    """What an operator does that no writer can write."""


class HalfPrecision(Unsupported):
    """What computes in 16 bits, by the name of the type: another yardstick than float32 would be needed."""


@dataclass(frozen=True)
class Sizes:
    """A vector of integers, or one integer (`scalar`), of which some may be known; `dtype` is that of the tensor."""

    items: tuple[Size, ...]
    scalar: bool = False
    dtype: str = "int64"

    @property
    def known(self) -> bool:
        return all(isinstance(item, int) for item in self.items)

    def array(self) -> Array:
        """The integers, all known, as an array."""
        return np.array(self.items[0] if self.scalar else self.items, self.dtype)


Value = Any  # an array, Sizes or a Paddle value; None for an input that is left out


def is_known(value: Value) -> TypeGuard[Array]:
    return isinstance(value, np.ndarray)


def simplified(value: Value) -> Value:
    """The value; sizes that are all known as an array."""
    return value.array() if isinstance(value, Sizes) and value.known else value


def sizes_of(tensor: Any) -> list[Size]:
    """The sizes of a Paddle value: an int where it is known."""
    import paddle

    if all(size >= 0 for size in tensor.shape):
        return list(tensor.shape)
    shape = paddle.shape(tensor)
    return [size if size >= 0 else shape[axis] for axis, size in enumerate(tensor.shape)]


def as_sizes(value: Value, longest: int = 16) -> Sizes | None:
    """A short vector of integers, or one, as Sizes; None if the value is something else."""
    import paddle

    if value is None or isinstance(value, Sizes):
        return value
    if is_known(value):
        fits = value.dtype.kind == "i" and value.ndim <= 1 and value.size <= longest
        return Sizes(tuple(int(item) for item in value.reshape(-1)), value.ndim == 0, value.dtype.name) if fits else None
    shape, dtype = list(value.shape), name_of(value.dtype)
    if dtype not in ("int32", "int64") or len(shape) > 1 or any(not 0 <= size <= longest for size in shape):
        return None
    items = (value,) if not shape else tuple(value[index] for index in range(shape[0]))
    return Sizes(tuple(paddle.cast(item, "int64") for item in items), not shape, dtype)


def as_tensor(value: Value) -> Any:
    """Sizes, or an array that is short or has numbers which no parameter may have, as a Paddle value."""
    import paddle

    if isinstance(value, Sizes):
        items = [paddle.full([], item, value.dtype) if isinstance(item, int) else paddle.cast(item, value.dtype) for item in value.items]
        if value.scalar:
            return items[0]
        return paddle.stack(items) if items else paddle.full([0], 0, value.dtype)
    if not value.size or (value == value.flat[0]).all():
        return paddle.full(list(value.shape), value.flat[0].item() if value.size else 0, value.dtype.name)
    return paddle.assign(value)


def is_constant(value: Array) -> bool:
    """Whether an array becomes a constant of the program; otherwise a parameter."""
    exact = value.dtype.kind == "f" or bool(np.all(np.abs(value.astype(np.float64)) < _EXACT))
    if value.ndim == 0 or value.size <= 1 or (value.dtype.kind != "f" and value.size <= _SHORT):
        return exact
    return value.dtype.kind == "f" and not np.isfinite(value).all()


def name_of_type(kind: int) -> str:
    """The name of one of ONNX's element types, as numpy and Paddle call it; empty for one that a program may not have."""
    import onnx

    name = str(onnx.TensorProto.DataType.Name(kind)).lower() if kind in onnx.TensorProto.DataType.values() else ""
    name = {"float": "float32", "double": "float64"}.get(name, name)
    return name if name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64") else ""


def without_name(kind: int) -> Unsupported:
    """Why no program may have one of ONNX's element types."""
    import onnx

    name = str(onnx.TensorProto.DataType.Name(kind)).lower() if kind in onnx.TensorProto.DataType.values() else str(kind)
    return HalfPrecision(name) if name in _HALF else Unsupported(f"to the element type {name}")


def name_of(dtype: Any) -> str:
    """The name of one of Paddle's dtypes."""
    return str(dtype).rpartition(".")[2].lower()


def product(sizes: Iterable[int]) -> int:
    return math.prod(int(size) for size in sizes)
