"""One operator of a graph, as its writer sees it: its attributes, and its inputs in the form that the writer needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddleship.model.exported_file.onnx_file import values
from paddleship.model.exported_file.onnx_file.values import Array, Sizes, Unsupported, Value


@dataclass(frozen=True)
class Source:
    """The file of a graph. `opset` is its version of ONNX's operators; `one_row`: it takes one row, and is written for any number."""

    path: str
    opset: int
    one_row: bool = False


class Node:
    """`write` writes a graph inside this operator, `tensor` makes a Paddle value of another one."""

    def __init__(
        self,
        proto: Any,
        inputs: Sequence[Value],
        source: Source,
        *,
        tensor: Callable[[Value, str], Any],
        write: Callable[[Any], list[Value]],
    ) -> None:
        import onnx
        import paddle

        self.paddle, self.functional = paddle, paddle.nn.functional
        self.kind, self.outputs = str(proto.op_type), list(proto.output)
        self.opset, self.one_row = source.opset, source.one_row
        self.write = write
        self._names, self._inputs, self._tensor = list(proto.input), list(inputs), tensor
        self._attributes = {one.name: onnx.helper.get_attribute_value(one) for one in proto.attribute}

    @property
    def count(self) -> int:
        return len(self._inputs)

    def attribute(self, name: str, default: Any = None) -> Any:
        value = self._attributes.get(name, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def require(self, name: str, *allowed: Any) -> None:
        """Raise Unsupported unless the attribute is left out or has one of these values."""
        if (value := self.attribute(name, allowed[0])) not in allowed:
            raise Unsupported(f"with {name} {value!r}")

    def require_outputs(self, count: int = 1) -> None:
        """Raise Unsupported if more than the first outputs are used."""
        if any(self.outputs[count:]):
            raise Unsupported(f"with the output {self.outputs[-1]!r}")

    def has(self, index: int) -> bool:
        return index < len(self._inputs) and self._inputs[index] is not None

    def value(self, index: int) -> Value:
        return self._inputs[index] if self.has(index) else None

    def values(self) -> list[Value]:
        return self._inputs

    def tensor(self, index: int) -> Any:
        """The input as a Paddle value; None if it is left out."""
        return self._tensor(self._inputs[index], self._names[index]) if self.has(index) else None

    def tensors(self) -> list[Any]:
        return [self.tensor(index) for index in range(self.count)]

    def known(self, index: int) -> Array | None:
        """The input as an array; None if it is left out. Raises Unsupported if it is calculated."""
        value = self.value(index)
        if value is not None and not values.is_known(value):
            raise Unsupported(f"with a calculated {self._names[index]!r}")
        return value

    def sizes(self, index: int) -> Sizes:
        """The input as integers, of which some may be calculated. Raises Unsupported."""
        found = values.as_sizes(self.value(index))
        if found is None:
            raise Unsupported(f"with a calculated {self._names[index]!r} of unknown length")
        return found

    def ints(self, name: str, index: int | None = None) -> list[int] | None:
        """Integers that are an attribute, in newer opsets the input `index`; None if they are left out. Raises Unsupported."""
        if name in self._attributes:
            value = self._attributes[name]
            return [value] if isinstance(value, int) else list(value)
        array = None if index is None else self.known(index)
        return None if array is None else [int(item) for item in array.reshape(-1)]

    def number(self, name: str, index: int, default: float | None = None) -> float | None:
        """A number that is an attribute, in newer opsets the input `index`. Raises Unsupported."""
        if name in self._attributes:
            return float(self._attributes[name])
        array = self.known(index)
        return default if array is None else np.asarray(array).reshape(-1)[0].item()

    def made(self, value: Value, name: str) -> Any:
        """A value that the writer calculated, as a Paddle value."""
        return self._tensor(value, name)

    def full(self, number: float, like: Any) -> Any:
        """A Paddle value without dimensions, of the dtype of another."""
        return self.paddle.full([], number, like.dtype)
