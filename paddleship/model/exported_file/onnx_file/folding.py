"""What can be known of an operator before the program runs: its results, if all its inputs are known, and the function that defines it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from paddleship.model.exported_file.onnx_file import values
from paddleship.model.exported_file.onnx_file.values import Array, Unsupported, Value

QUANTISED = frozenset(
    {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QLinearConv", "QLinearMatMul"}
)
"""Operators that round to integers, or compute with them in place of floats."""

_IN_REFERENCE = {"QuantizeLinear": 19, "DequantizeLinear": 19}  # the first opset in which ONNX's reference has these operators
_LARGEST = 2**27  # elements of a result that is made from the description of its shape
_NOT_FOLDED = frozenset(
    {"Constant", "If", "Loop", "Scan", "Bernoulli", "Multinomial"}
    | {"AveragePool", "Conv", "ConvTranspose", "GRU", "GridSample", "LSTM", "MaxPool", "RNN", "Resize", "Upsample"}
    | {"TopK", "LogSoftmax"}
)
"""Operators that are not the same each time, those for which ONNX's reference in Python takes minutes, and those that it computes
inexactly: it orders equal values differently from the specification, and takes the logarithm of a softmax that is rounded to 0."""


def fold(proto: Any, inputs: Sequence[Value], opset: int) -> list[Array] | None:
    """The results of an operator whose inputs are all known; None if they are not, or its results cannot be known. Raises Unsupported."""
    left_out = proto.op_type in _NOT_FOLDED or proto.op_type.startswith("Random")
    if left_out or not all(value is None or values.is_known(value) for value in inputs):
        return None
    _require_small(proto.op_type, inputs)
    return evaluate(proto, inputs, opset)


def evaluate(proto: Any, inputs: Sequence[Array | None], opset: int) -> list[Array] | None:
    """The results of an operator in ONNX's reference; None if it does not know them."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    names = [f"input_{index}" if value is not None else "" for index, value in enumerate(inputs)]
    node = onnx.NodeProto()
    node.CopyFrom(proto)
    del node.input[:]
    node.input.extend(names)
    taken, made = ([name for name in some if name] for some in (names, proto.output))
    version = max(opset, _IN_REFERENCE.get(proto.op_type, opset))
    function = onnx.helper.make_function("", "folded", taken, made, [node], [onnx.helper.make_opsetid("", version)])
    given = {name: value for name, value in zip(names, inputs, strict=True) if name}
    try:
        with np.errstate(all="ignore"):
            found = iter(ReferenceEvaluator(function).run(None, given, attributes={}))
    except Exception:  # an operator that the reference does not know; the writer has it or refuses it
        return None
    results = [next(found) if name else None for name in proto.output]
    return [np.asarray(result) for result in results] if all(_is_plain(result) for result in results) else None


def _is_plain(result: Any) -> bool:
    return result is None or (isinstance(result, np.ndarray | np.generic) and np.asarray(result).dtype.kind in "fiub")


def _require_small(kind: str, inputs: Sequence[Array | None]) -> None:
    """Raise Unsupported for an operator that makes a huge array from a few numbers."""
    first, second = (*inputs, None, None)[:2]
    if kind == "ConstantOfShape":
        size = values.product(first.reshape(-1)) if first is not None else 0
    elif kind in ("Expand", "Tile") and first is not None and second is not None:
        size = values.product(np.maximum(second.reshape(-1), 1)) * max(first.size, 1)
    elif kind == "Range" and None not in inputs:
        size = int((float(inputs[1]) - float(inputs[0])) / float(inputs[2] or 1))  # type: ignore[arg-type]
    elif kind == "Pad" and first is not None and second is not None:
        size = values.product(np.add(first.shape, int(np.abs(second).max(initial=0)) * 2))
    else:
        return
    if size > _LARGEST:
        raise Unsupported(f"that makes {size:,} elements")


def function_of(proto: Any, inputs: Sequence[Any], opset: int) -> Any:
    """The function by which ONNX defines an operator for inputs of these types; None if it has none."""
    import onnx

    try:
        schema = onnx.defs.get_schema(proto.op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
    if schema.has_function:
        return schema.function_body
    if not schema.has_context_dependent_function:
        return None
    types = [_type(value).SerializeToString() if value is not None else b"" for value in inputs]
    function = onnx.FunctionProto()
    function.ParseFromString(schema.get_context_dependent_function(proto.SerializeToString(), types))
    return function


def _type(value: Any) -> Any:
    import onnx

    dtype = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(values.name_of(value.dtype)))
    return onnx.helper.make_tensor_type_proto(dtype, [size if size >= 0 else None for size in value.shape])


def with_attributes(function: Any, proto: Any, opset: int) -> Iterator[Any]:
    """The operators of a function, with the attributes of its call, or their defaults."""
    import onnx

    known = onnx.defs.get_schema(proto.op_type, opset, "").attributes
    given = {name: one.default_value for name, one in known.items() if one.default_value.name}
    given |= {one.name: one for one in proto.attribute}
    for inner in function.node:
        node = onnx.NodeProto()
        node.CopyFrom(inner)
        del node.attribute[:]
        for one in inner.attribute:
            if not one.ref_attr_name:
                node.attribute.append(one)
            elif one.ref_attr_name in given:
                copied = node.attribute.add()
                copied.CopyFrom(given[one.ref_attr_name])
                copied.name = one.name
        yield node
