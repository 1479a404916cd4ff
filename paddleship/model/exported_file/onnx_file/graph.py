"""Write the operators of an ONNX graph with Paddle's functions, into the program that Paddle builds at the moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from paddleship.errors import ModelError
from paddleship.model.exported_file.onnx_file import folding, operators, values
from paddleship.model.exported_file.onnx_file.node import Node, Source
from paddleship.model.exported_file.onnx_file.proto import needed
from paddleship.model.exported_file.onnx_file.values import Array, HalfPrecision, Unsupported, Value

_ADVICE = "export the model without it"
_QUANTISED = "give the float32 model that it was quantised from; optimize makes int8 candidates of that"
_DEEPEST = 20  # operators that are functions of others, within each other

Scope = dict[str, Value]


class Graph:
    """`weights` collects the arrays of the program's parameters by their names, which are those of the file."""

    def __init__(self, source: Source) -> None:
        self.weights: dict[str, Array] = {}
        self._source, self._path, self._opset = source, source.path, source.opset
        self._parameters: dict[int, tuple[Array, Any]] = {}  # by the array's id; the array is kept, so that the id stays its own

    def write(self, graph: Any, scope: Scope) -> Scope:
        """Write a graph whose inputs `scope` holds. Returns all its values. Raises ModelError."""
        inner = scope | {item.name: self._array(item) for item in graph.initializer}
        for node in needed(graph):
            self._add(node, inner)
        return inner

    def _array(self, item: Any) -> Array:
        """The numbers of a tensor of the file. Raises ModelError for those that numpy does not have."""
        import onnx

        kind = onnx.TensorProto.DataType.Name(item.data_type).lower()
        if not values.name_of_type(item.data_type) and kind not in ("float16", "string", "uint16", "uint32", "uint64"):
            raise ModelError(f"{self._path!r} holds {item.name!r} as {kind}, which is not supported: {values.IN_FLOAT32}")
        try:
            return np.asarray(onnx.numpy_helper.to_array(item))
        except (TypeError, ValueError) as odd:
            raise ModelError(f"{self._path!r} holds {item.name!r} with other numbers than its shape has ({odd}): copy it again") from None

    def tensor(self, value: Value, name: str) -> Any:
        """A value as Paddle's: an array becomes a constant, or a parameter with a name like `name`."""
        if not isinstance(value, np.ndarray | values.Sizes):
            return value
        if isinstance(value, values.Sizes) or values.is_constant(value):
            return values.as_tensor(value)
        if id(value) not in self._parameters:
            self._parameters[id(value)] = value, self._parameter(value, name)
        return self._parameters[id(value)][1]

    def _parameter(self, value: Array, name: str) -> Any:
        import paddle

        if value.dtype.name == "float16":
            raise HalfPrecision(value.dtype.name)
        if value.dtype.kind not in "fiub" or value.dtype.name in ("uint16", "uint32", "uint64"):
            raise Unsupported(f"with {value.dtype.name} in {name!r}")
        free = unique(_plain(name), self.weights)
        self.weights[free] = value
        zero = paddle.nn.initializer.Constant(0)
        return paddle.static.create_parameter(list(value.shape), value.dtype.name, name=free, default_initializer=zero)

    def _add(self, proto: Any, scope: Scope, depth: int = 0) -> None:
        """Write one operator, and put its results into the scope. Raises ModelError."""
        try:
            results = self._results(proto, scope, depth)
        except ModelError:
            raise
        except HalfPrecision as half:
            raise ModelError(f"{self._path!r} computes in {half} (operator {_title(proto)}): {values.IN_FLOAT32}") from None
        except Unsupported as odd:
            held = f"{_title(proto)} {odd}".strip()
            raise ModelError(f"{self._path!r} holds the operator {held}, which is not supported: {_ADVICE}") from None
        except Exception as failure:
            reason = next((line.strip() for line in reversed(str(failure).splitlines()) if line.strip()), type(failure).__name__)
            raise ModelError(
                f"{self._path!r} holds the operator {_title(proto)}, which Paddle cannot run there ({reason[:200]}): {_ADVICE}"
            ) from failure
        scope.update(
            (name, values.simplified(result)) for name, result in zip(proto.output, results, strict=False) if name and result is not None
        )
        if missing := [name for name in proto.output if name and name not in scope]:
            raise ModelError(f"{self._path!r} uses the output {missing[0]!r} of {_title(proto)}, which is not supported: {_ADVICE}")

    def _results(self, proto: Any, scope: Scope, depth: int) -> Sequence[Value]:
        inputs = [scope[name] if name else None for name in proto.input]
        if (folded := folding.fold(proto, inputs, self._opset)) is not None:
            return folded
        if proto.op_type in folding.QUANTISED:
            raise ModelError(f"{self._path!r} is quantised (operator {_title(proto)}): {_QUANTISED}")
        writer = operators.writers().get(proto.op_type)
        if writer is None:
            return self._expanded(proto, inputs, depth)
        node = Node(proto, inputs, self._source, tensor=self.tensor, write=lambda graph: self._branch(graph, scope))
        results = writer(node)
        return results if isinstance(results, list | tuple) else [results]

    def _branch(self, graph: Any, scope: Scope) -> list[Value]:
        inner = self.write(graph, scope)
        return [inner[item.name] for item in graph.output]

    def _expanded(self, proto: Any, inputs: Sequence[Value], depth: int) -> Sequence[Value]:
        """The results of an operator that ONNX defines as a function of others. Raises Unsupported."""
        types = [value if value is None else self.tensor(value, name) for value, name in zip(inputs, proto.input, strict=True)]
        function = folding.function_of(proto, types, self._opset) if depth < _DEEPEST else None
        if function is None:
            raise Unsupported("")
        scope: Scope = dict(zip(function.input, inputs, strict=False))
        scope |= dict.fromkeys(list(function.input)[len(inputs) :])
        for inner in folding.with_attributes(function, proto, self._opset):
            self._add(inner, scope, depth + 1)
        return [scope.get(name) for name in function.output]


def unique(name: str, taken: Iterable[str] | Mapping[str, Any]) -> str:
    """The name, with a number if it is taken."""
    names = set(taken)
    return next(one for one in (name, *(f"{name}_{count}" for count in range(1, len(names) + 2))) if one not in names)


def _plain(name: str) -> str:
    """A name that a Paddle layer may give a parameter: without a dot, and no attribute of every layer."""
    import paddle

    plain = name.replace(".", "/") or "constant"
    return f"{plain}_" if hasattr(paddle.nn.Layer, plain) or plain in vars(paddle.nn.Layer()) else plain


def _title(proto: Any) -> str:
    return f"{proto.op_type!r} ({proto.name or next(iter(proto.output), '')!r})"
