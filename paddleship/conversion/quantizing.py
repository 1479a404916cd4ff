"""Quantise model.onnx to int8, for ONNX Runtime and for OpenVINO.

For child processes: quantisers keep state, print, and may crash. `verify` judges the decisions; here a model is refused only
if nothing in it was quantised.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from paddleship.errors import CandidateError
from paddleship.shipped.computing.preprocess import Batch

_DYNAMIC = ("MatMul", "LSTM", "Gather", "Attention", "EmbedLayerNormalization")  # the CPU has no kernel for a dynamic int8 Conv
_WEIGHTED = ("Conv", "ConvTranspose", "Gemm", "MatMul", "Gather")
_PASSING = ("Relu", "Clip", "MaxPool", "AveragePool", "GlobalAveragePool", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose")
_QUANTISED = ("DequantizeLinear", "MatMulInteger", "ConvInteger", "DynamicQuantizeLSTM")
_HEAVY = ("MatMul", "Convolution", "GroupConvolution", "ConvolutionBackpropData", "LSTMSequence", "GRUSequence", "Gather")  # of OpenVINO


def dynamic(source: Path, target: Path, _batches: Sequence[Batch]) -> None:
    """Weights in int8 with one scale per channel; activations are quantised at every call. Raises CandidateError."""
    _dynamic(source, target, per_channel=True)


def dynamic_per_tensor(source: Path, target: Path, _batches: Sequence[Batch]) -> None:
    """The same with one scale per tensor: coarser, and faster if a kernel multiplies by many scales. Raises CandidateError."""
    _dynamic(source, target, per_channel=False)


def static(source: Path, target: Path, batches: Sequence[Batch]) -> None:
    """Weights and activations in int8, calibrated with the batches. Raises CandidateError.

    Weights use 7 bits: without VNNI, the sum of two 8-bit products overflows 16 bits, and the same file would answer differently on
    another processor.
    """
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as scratch:
        prepared = _prepare(source, Path(scratch))
        names = [item.name for item in _graph(prepared).input]  # an input that is only passed through is not in the graph
        quantization.quantize_static(
            prepared,
            target / "model.onnx",
            _reader([{name: batch[name] for name in names} for batch in _require_batches(batches)]),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            reduce_range=True,
            op_types_to_quantize=[*_WEIGHTED, *_PASSING, "Add"],
            nodes_to_exclude=_lone_sums(prepared),
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            extra_options={"MatMulConstBOnly": True},  # most attention weights are tiny and would be lost in 8 bits
        )
    _require_quantised(target / "model.onnx", _WEIGHTED)


def openvino(source: Path, target: Path, batches: Sequence[Batch]) -> None:
    """Weights and activations in int8 by nncf, calibrated with the batches, as OpenVINO IR. Raises CandidateError.

    Weights use 7 bits, as in `static`.
    """
    from paddleship.shipped.computing.runtimes import openvino as door

    ov = door.module()
    import nncf

    samples = _require_batches(batches)
    model = ov.Core().read_model(str(source / "model.onnx"))
    _require((operator.get_type_name() for operator in model.get_ordered_ops()), _HEAVY)
    names = [next(name for name in samples[0] if name in port.names) for port in model.inputs]
    dataset = nncf.Dataset([[batch[name] for name in names] for batch in samples])
    seven_bits = nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.ENABLE)
    made = nncf.quantize(model, dataset, target_device=nncf.TargetDevice.CPU, subset_size=len(samples), advanced_parameters=seven_bits)
    ov.save_model(made, str(target / "model.xml"), compress_to_fp16=False)


def _dynamic(source: Path, target: Path, *, per_channel: bool) -> None:
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as scratch:
        prepared = _prepare(source, Path(scratch))
        quantization.quantize_dynamic(
            prepared,
            target / "model.onnx",
            op_types_to_quantize=list(_DYNAMIC),
            per_channel=per_channel,
            reduce_range=True,
            weight_type=quantization.QuantType.QInt8,
        )
    _require_quantised(target / "model.onnx", _DYNAMIC)


def _require_batches(batches: Sequence[Batch]) -> Sequence[Batch]:
    if not batches:
        raise CandidateError("no row of the training part fits this program, so there is nothing to calibrate with")
    return batches


def _prepare(source: Path, scratch: Path) -> Path:
    """The program with constants as initializers, folded and fused, as the quantiser expects it."""
    from onnxruntime.quantization import shape_inference

    prepared = scratch / "prepared.onnx"
    shape_inference.quant_pre_process(source / "model.onnx", prepared, skip_symbolic_shape=True)
    return prepared


def _lone_sums(path: Path) -> list[str]:
    """The additions that do not join branches of convolutions: masks, positions and sums of ids lose too much in 8 bits."""
    branches: set[str] = set()
    lone = []
    for operator in _graph(path).node:
        joined = operator.input[: 2 if operator.op_type == "Add" else 1]
        if operator.op_type == "Conv" or (operator.op_type in ("Add", *_PASSING[:5]) and branches.issuperset(joined)):
            branches.update(operator.output)
        elif operator.op_type == "Add":
            lone.append(operator.name)
    return lone


def _reader(batches: Sequence[Batch]) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._left: Iterator[Batch] = iter(batches)

        def get_next(self) -> Batch | None:
            return next(self._left, None)

    return Reader()


def _graph(path: Path) -> Any:
    import onnx

    return onnx.load(str(path)).graph


def _require_quantised(path: Path, wanted: Sequence[str]) -> None:
    """Raises CandidateError if nothing was quantised; the message says if all candidates are in a loop or a branch."""
    graph = _graph(path)
    inside = sorted({operator.op_type for operator in _nested(graph)}.intersection(wanted))
    if inside and not {operator.op_type for operator in graph.node}.intersection(_QUANTISED):
        raise CandidateError(
            f"nothing in this model can be quantised: its {', '.join(inside)} lie in the body of an ONNX Loop or If, "
            "which the quantiser leaves as it is"
        )
    _require((operator.op_type for operator in graph.node), _QUANTISED)


def _nested(graph: Any) -> Iterator[Any]:
    """The operators in the bodies of a graph's loops and branches, at any depth."""
    for operator in graph.node:
        for attribute in operator.attribute:
            for body in [attribute.g, *attribute.graphs]:
                yield from body.node
                yield from _nested(body)


def _require(operators: Iterable[str], wanted: Sequence[str]) -> None:
    if not set(operators).intersection(wanted):
        raise CandidateError(
            "nothing in this model can be quantised: it has no matrix product, convolution or embedding with constant weights"
        )
