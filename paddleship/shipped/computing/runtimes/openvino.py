"""OpenVINO: the exported program as ONNX, or as OpenVINO IR if it was quantised."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import CandidateError
from paddleship.shipped.computing import spec
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import named_outputs
from paddleship.shipped.computing.runtimes.registration import Kind, Registration
from paddleship.shipped.computing.spec import Arrays

_DEVICE = "CPU"
_SINGLE = "single_row_program"  # the option for a second program, compiled for a batch of 1, which answers single rows
_STABLE = 2**14  # comparisons of a stable sort, which takes time for each pair: 8,400 values in order take 0.3 s instead of 1 ms
_HINTS = {"float32": "f32", "bfloat16": "bf16", "int8": "f32"}  # int8: operators that are not quantised stay in float32


class OpenVino:
    def __init__(self, compiled: Any, candidate: Candidate) -> None:
        self._request = compiled.create_infer_request()
        self._candidate = candidate
        self._names = [_ours(port.names, candidate) for port in compiled.inputs]  # in order; a port also has the names of its consumers

    def run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        given = [np.asarray(inputs[name], order="C") for name in self._names]
        answer = self._request.infer(given, share_inputs=True)  # outputs are copied: they live longer than the request's memory
        return named_outputs(self._candidate, [answer[place] for place in range(len(answer))], inputs)


class SingleAndOthers:
    """Two programs compiled from one file: one for a batch of 1, one for every other batch."""

    def __init__(self, single: OpenVino, others: OpenVino, axes: Mapping[str, int]) -> None:
        self._single, self._others = single, others
        self._name, self._axis = next(iter(axes.items()))

    def run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        return (self._single if inputs[self._name].shape[self._axis] == 1 else self._others).run(inputs)


def _ours(names: set[str], candidate: Candidate) -> str:
    return next(spec.name for spec in candidate.inputs if spec.name in names)


def module() -> Any:
    """Import OpenVINO without its telemetry package, which would report the import."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino

    return openvino


def load(folder: Path, candidate: Candidate) -> OpenVino | SingleAndOthers:
    """Load with one stream on `candidate.threads` threads. Raises CandidateError if the processor has no bfloat16."""
    core = module().Core()
    if candidate.precision == "bfloat16" and "BF16" not in core.get_property(_DEVICE, "OPTIMIZATION_CAPABILITIES"):
        raise CandidateError("this processor does not compute in bfloat16, and OpenVINO would silently use float32: use `openvino`")
    own = folder / "model.xml"
    program = core.read_model(str(own if own.exists() else folder / "model.onnx"))
    _order_equal_values(program)
    options = candidate.options
    settings = {
        "PERFORMANCE_HINT": options.get("performance_hint", "LATENCY"),
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": candidate.threads,
        "INFERENCE_PRECISION_HINT": _HINTS[candidate.precision],
        "ENABLE_CPU_PINNING": False,  # otherwise several servers on one machine would pin themselves to the same cores
    }
    if "hyper_threading" in options:
        settings["ENABLE_HYPER_THREADING"] = options["hyper_threading"]
    loaded = OpenVino(core.compile_model(program, _DEVICE, settings), candidate)
    if not options.get(_SINGLE):
        return loaded
    axes = _batch_axes(candidate)
    for port in program.inputs:
        if (name := _ours(port.names, candidate)) in axes:
            shape = port.partial_shape
            shape[axes[name]] = 1
            program.reshape({port: shape})
    return SingleAndOthers(OpenVino(core.compile_model(program, _DEVICE, settings), candidate), loaded, axes)


def _order_equal_values(program: Any) -> None:
    """Let short sorts give equal values in their order, as ONNX defines TopK; OpenVINO's reader of ONNX files ignores that."""
    for operator in program.get_ops():
        if operator.get_type_name() != "TopK" or operator.get_input_partial_shape(0).rank.is_dynamic:
            continue
        axis = operator.get_attributes()["axis"]
        size, count = operator.get_input_partial_shape(0)[axis], operator.get_output_partial_shape(0)[axis]
        if size.is_static and count.is_static and size.get_length() * count.get_length() <= _STABLE:
            operator.set_attribute("stable", True)


def _batch_axes(candidate: Candidate) -> dict[str, int]:
    """The batch axis of each input that has one. Raises CandidateError if none has."""
    batch = spec.batch_dimension(candidate.inputs)
    axes = {one.name: axis for one in candidate.inputs if (axis := spec.batch_axis(one, batch)) is not None}
    if not axes:
        raise CandidateError(f"candidate {candidate.name!r} has the option {_SINGLE!r} and no input counts rows: convert it again")
    return axes


RUNTIME = Registration(
    name="openvino",
    load=load,
    source="onnx",
    candidates={
        "openvino": Kind(packages=("openvino",), extra="openvino", per_shape=True),
        "openvino-bf16": Kind("bfloat16", packages=("openvino",), extra="openvino", per_shape=True),
        "openvino-int8": Kind(
            "int8",
            packages=("openvino", "nncf"),
            extra="openvino",
            maker="paddleship.conversion.quantizing:openvino",
            calibrated=True,
            weights="paddleship.weights.openvino_files:read",
            corrects_biases=True,
            per_shape=True,
        ),
    },
    requirements="openvino.txt",
    distributions=("openvino", "nncf"),
    settings={"hyper_threading": [True, False], "performance_hint": ["LATENCY", "THROUGHPUT"], _SINGLE: [False, True]},
    batch_settings=frozenset({_SINGLE}),
    thread_settings=frozenset({"hyper_threading"}),
    weights="paddleship.weights.onnx_files:read",
    processor_flags={"x86_64": ("sse4_1",)},  # measured with 2026.4 under emulation: it runs on Penryn and dies on Conroe
    not_served=(
        "openvino/tools",
        "openvino/include",
        "openvino/cmake",
        "openvino/libs/cache.json",  # compiled kernels for GPUs
        "openvino/libs/libopenvino_intel_[gn]pu_plugin.so",
        *(f"openvino/libs/libopenvino_{name}_frontend.so*" for name in ("gguf", "jax", "paddle", "pytorch", "tensorflow*")),
    ),
)
