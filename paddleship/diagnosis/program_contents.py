"""Modes, dtypes and inputs of a candidate's program, read without running it and without unpickling.

For a child process: reading a Paddle program needs static mode, which is global, and a broken file may crash the process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from paddleship.conversion import shape_buckets
from paddleship.model import building
from paddleship.numerics.differences import Array
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.candidate import Candidate, Program
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.runtimes.registration import OTHER_WEIGHTS
from paddleship.shipped.computing.spec import TensorSpec

_RANDOM = ("uniform", "gaussian", "bernoulli", "randint", "randperm", "multinomial", "truncated_gaussian_random", "poisson", "exponential_")
_EVAL = "call eval() on the model before conversion, and pass training=self.training to dropout"


def is_readable(candidate: Candidate) -> bool:
    """Whether the candidate's program can be read here: not for eager code, and not for quantised programs."""
    return candidate.precision not in OTHER_WEIGHTS and _reader(candidate) is not None


def inspect(folder: Path, checkpoint: Path) -> list[Finding]:
    """Findings on the program of the candidate in `folder`: train-mode, dtype-differs, frozen-dimension."""
    from safetensors.numpy import load_file

    candidate = Candidate.load(folder)
    own: dict[str, Array] = load_file(checkpoint / building.WEIGHTS)
    reader = _reader(candidate)
    if reader is None:
        return []
    findings: dict[str, Finding] = {}
    for program in candidate.programs or (Program(".", {}),):
        fixed = replace(candidate, inputs=shape_buckets.fixed(candidate.inputs, program.sizes))
        findings |= {str(finding): finding for finding in reader(folder / program.folder, fixed, own)}
    return [finding for finding in findings.values() if finding.kind != "dtype-differs" or candidate.precision == "float32"]


def _reader(candidate: Candidate) -> Callable[[Path, Candidate, Mapping[str, Array]], list[Finding]] | None:
    """The reader for the program's format; None for other formats."""
    runtime = registry.get(candidate.runtime).registration
    if runtime.source == "program":
        return _inspect_program
    return _inspect_onnx if runtime.source == "onnx" and "model.onnx" in {PurePath(file).name for file in candidate.files} else None


def _inspect_program(folder: Path, candidate: Candidate, own: Mapping[str, Array]) -> list[Finding]:
    import paddle

    paddle.enable_static()
    program = paddle.static.load_inference_model(str(folder / "model"), paddle.static.Executor(paddle.CPUPlace()))[0]
    scope = paddle.static.global_scope()
    held: dict[str, Array] = {}
    findings: list[Finding] = []
    shapes: dict[str, tuple[list[int], str]] = {}
    small: list[str] = []
    for operator in _operators(program.global_block()):
        name, attrs = operator.name(), operator.attrs()
        if name == "builtin.parameter":
            variable = scope.find_var(attrs["parameter_name"])
            held[attrs["parameter_name"]] = np.array(variable.get_tensor())
        elif name == "pd_op.data":
            shapes[attrs["name"]] = (list(attrs["shape"]), str(attrs["dtype"]).lower().rpartition(".")[2])
        elif _trains(name.removeprefix("pd_op."), attrs):
            findings.append(_train_mode(operator, held, own))
        if any(dtype in str(value.type()) for value in operator.results() for dtype in ("xf16", "xbf16", "<f16", "<bf16")):
            small.append(f"{attrs.get('struct_name', '')} {name}".strip())
    return [
        *findings,
        *_precision(small, candidate),
        *_inputs(shapes, candidate.inputs),
    ]


def _operators(block: Any) -> Iterator[Any]:
    for operator in block.ops:
        yield operator
        for inner in operator.blocks():
            yield from _operators(inner)


def _trains(name: str, attrs: Mapping[str, Any]) -> bool:
    if name.startswith(("batch_norm", "sync_batch_norm", "dropout", "rrelu")):
        return attrs.get("is_test") is False
    return name in _RANDOM


def _train_mode(operator: Any, held: Mapping[str, Array], own: Mapping[str, Array]) -> Finding:
    """The operator in train mode, with its layer: by the weights of the operator, otherwise by the classes that called it."""
    origins = [source.get_defining_op() for source in operator.operands_source()]
    parameters = [
        held[origin.attrs()["parameter_name"]] for origin in origins if origin is not None and origin.name() == "builtin.parameter"
    ]
    names = [name for name, array in own.items() for held_ in parameters if array.shape == held_.shape and np.array_equal(array, held_)]
    kind = str(operator.attrs().get("struct_name", "")).strip("/") or None
    name = operator.name().removeprefix("pd_op.").rstrip("_")
    what = "draws random numbers" if name in _RANDOM else "runs in train mode"
    owners = Counter(name.rpartition(".")[0] for name in names)  # zeros and ones look like weights of another layer
    layer = owners.most_common(1)[0][0] if owners else kind
    return Finding("train-mode", "error", f"{name} of the program {what}" + (f" ({layer})" if layer else ""), _EVAL, layer=layer)


def _precision(small: list[str], candidate: Candidate) -> list[Finding]:
    if not small:
        return []
    message = f"{len(small)} operators compute in float16 or bfloat16 (first {small[0]}), but candidate.json says {candidate.precision}"
    return [Finding("dtype-differs", "error", message, "convert in float32, or declare the lower precision", layer=small[0])]


def _inputs(actual: Mapping[str, tuple[list[int], str]], specs: tuple[TensorSpec, ...]) -> list[Finding]:
    """Inputs of the program that differ from those that the model declares."""
    findings = []
    for spec in specs:
        shape, dtype = actual.get(spec.name, ([], ""))
        wanted = [-1 if size is None else size for size in spec.dynamic_shape]
        if spec.name not in actual or (shape == wanted and dtype == spec.dtype):
            continue
        where = f"input {spec.name!r} of the program is {dtype}{shape}, the candidate says {spec.dtype}{wanted}"
        if dtype != spec.dtype or len(shape) != len(wanted) or any(-1 != want != got for got, want in zip(shape, wanted, strict=True)):
            findings.append(Finding("dtype-differs", "error", f"{where}: another dtype or layout", "convert with the declared inputs"))
            continue
        frozen = [str(name) for name, got in zip(spec.shape, shape, strict=True) if isinstance(name, str) and got != -1]
        advice = "convert with a dynamic dimension (None in the InputSpec)"
        findings.append(Finding("frozen-dimension", "error", f"{where}: {', '.join(frozen)} was frozen", advice))
    return findings


def _inspect_onnx(folder: Path, candidate: Candidate, _own: Mapping[str, Array]) -> list[Finding]:
    import onnx

    graph = onnx.load(str(folder / "model.onnx")).graph
    findings = []
    for operator in _onnx_operators(graph):
        training = any(attribute.name == "training_mode" and attribute.i for attribute in operator.attribute)
        if training or operator.op_type in ("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli"):
            what = "runs in train mode" if training else "draws random numbers"
            findings.append(
                Finding("train-mode", "error", f"{operator.op_type} of the ONNX program {what}", _EVAL, layer=operator.name or None)
            )
    halves = [tensor.name for tensor in _constants(graph) if tensor.data_type in (onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)]
    shapes = {}
    for value in graph.input:
        kind = value.type.tensor_type
        sizes = [size.dim_value if size.HasField("dim_value") else -1 for size in kind.shape.dim]
        shapes[value.name] = (sizes, str(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)))
    return [*findings, *_precision(halves, candidate), *_inputs(shapes, candidate.inputs)]


def _onnx_operators(graph: Any) -> Iterator[Any]:
    for operator in graph.node:
        yield operator
        for attribute in operator.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                yield from _onnx_operators(inner)


def _constants(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for operator in _onnx_operators(graph):
        for attribute in operator.attribute:
            if operator.op_type == "Constant" and attribute.HasField("t"):
                yield attribute.t
            elif attribute.HasField("g"):
                yield from attribute.g.initializer
