"""Read the weights of an ONNX program: paddle2onnx names a constant like its parameter, and the quantiser extends that name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import CandidateError
from paddleship.numerics.differences import Array, wide
from paddleship.weights.candidate_tensors import Tensor, Tensors, dequantised

_CODES = "_quantized"


def read(folder: Path) -> Tensors:
    """The constants of model.onnx that an operator uses, dequantised. Raises CandidateError."""
    import onnx
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    path = folder / "model.onnx"
    try:
        graph = onnx.load(str(path)).graph
    except (OSError, ValueError, DecodeError) as error:
        raise CandidateError(f"{path} cannot be read ({type(error).__name__}: {str(error) or 'it is incomplete'})") from None
    operators = list(_operators(graph))
    arrays = dict(_constants(graph, operators))
    used = {name for operator in operators for name in operator.input} | {value.name for value in graph.output}
    axes = {operator.input[0]: _axis(operator) for operator in operators if operator.op_type == "DequantizeLinear"}
    axes |= {name: 0 for operator in operators if operator.op_type == "DynamicQuantizeLSTM" for name in operator.input[1:3]}  # directions
    return {
        name.removesuffix(_CODES): _dequantised(name, arrays, axes) if name.endswith(_CODES) else Tensor(array)
        for name, array in arrays.items()
        if name in used
    }


def read_float16(folder: Path) -> Tensors:
    """The same of a program that was converted to float16: its constants may differ from float32 by their rounding."""
    return {
        name: Tensor(tensor.values, _float16_step(tensor.values)) if tensor.values.dtype == np.float16 else tensor
        for name, tensor in read(folder).items()
    }


def _float16_step(values: Array) -> Array:
    """The distance to the next float16 of a larger size; the converter makes numbers below the smallest one equal to that."""
    _, exponents = np.frexp(np.abs(wide(values)))
    steps: Array = np.ldexp(1.0, np.maximum(exponents - 11, -23))
    return steps


def _operators(graph: Any) -> Iterator[Any]:
    for operator in graph.node:
        yield operator
        for attribute in operator.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _operators(inner)


def _constants(graph: Any, operators: list[Any]) -> Iterator[tuple[str, Array]]:
    from onnx.numpy_helper import to_array

    bodies = [attribute.g for operator in operators for attribute in operator.attribute if attribute.HasField("g")]
    for tensor in (tensor for part in (graph, *bodies) for tensor in part.initializer):
        yield tensor.name, to_array(tensor)
    for operator in operators:
        if operator.op_type == "Constant" and operator.attribute[0].HasField("t"):
            yield operator.output[0], to_array(operator.attribute[0].t)


def _axis(operator: Any) -> int:
    return next((attribute.i for attribute in operator.attribute if attribute.name == "axis"), 1)


def _dequantised(name: str, arrays: Mapping[str, Array], axes: Mapping[str, int]) -> Tensor:
    """Dequantise; if no operator names the axis of the scales, it is the last one (the columns of a product)."""
    base = name.removesuffix(_CODES)
    for start in (base, name):
        if (scale := arrays.get(f"{start}_scale")) is not None:
            zero = arrays.get(f"{start}_zero_point", np.zeros((), np.int8))
            return dequantised(arrays[name], scale, zero, axis=axes.get(name, -1))
    return Tensor(arrays[name])
