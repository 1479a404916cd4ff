"""ONNX Runtime: the exported program as ONNX."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import CandidateError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import named_outputs
from paddleship.shipped.computing.runtimes.registration import Kind, Registration
from paddleship.shipped.computing.spec import Arrays


class OnnxRuntime:
    def __init__(self, session: Any, candidate: Candidate) -> None:
        self._session = session
        self._candidate = candidate
        self._names = [item.name for item in session.get_inputs()]

    def run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        return named_outputs(self._candidate, self._session.run(None, {name: inputs[name] for name in self._names}), inputs)


def load(folder: Path, candidate: Candidate) -> OnnxRuntime:
    return OnnxRuntime(session(folder, candidate, "CPUExecutionProvider"), candidate)


def session(
    folder: Path,
    candidate: Candidate,
    provider: str,
    provider_options: Mapping[str, str] | None = None,
    *,
    entries: Mapping[str, str] | None = None,
) -> Any:
    """A session of the candidate in `folder` on an execution provider. ONNX Runtime may replace the provider by the CPU without an error.

    `entries` are further settings of the session, by ONNX Runtime's names. Raises CandidateError for a program that is too new.
    """
    import onnxruntime

    onnxruntime.disable_telemetry_events()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = candidate.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 1 if candidate.options.get("log_passes") else 3
    if "optimization_level" in candidate.options:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel(candidate.options["optimization_level"])
    options.enable_cpu_mem_arena = candidate.options.get("arena", True)
    options.enable_mem_pattern = candidate.options.get("memory_pattern", True)
    if "spinning" in candidate.options:
        options.add_session_config_entry("session.intra_op.allow_spinning", "1" if candidate.options["spinning"] else "0")
    for key, value in (entries or {}).items():
        options.add_session_config_entry(key, value)
    try:
        return onnxruntime.InferenceSession(
            str(folder / "model.onnx"),
            options,
            providers=[(provider, dict(provider_options or {}))],
            disabled_optimizers=candidate.options.get("without_passes"),
            enable_fallback=0,  # otherwise a run that fails is repeated on the CPU
        )
    except Exception as error:
        if too_new := _too_new(str(error)):
            raise CandidateError(f"{folder / 'model.onnx'} does not load: {too_new}: convert with an older opset") from None
        raise


def _too_new(message: str) -> str:
    """The opset or IR version that the runtime refuses and the newest it takes; empty for another error. It has no other interface."""
    if found := re.search(r"Opset (\d+) is under development.* is till opset (\d+)", message, re.DOTALL):
        return f"opset {found[1]}, this runtime takes up to {found[2]}"
    if found := re.search(r"Unsupported model IR version: (\d+), max supported IR version: (\d+)", message):
        return f"IR version {found[1]}, this runtime takes up to {found[2]}"
    return ""


RUNTIME = Registration(
    name="onnxruntime",
    load=load,
    source="onnx",
    candidates={
        "onnxruntime": Kind(packages=("onnxruntime",), examined=True),
        "onnxruntime-int8-dynamic": Kind("int8", packages=("onnxruntime",), maker="paddleship.conversion.quantizing:dynamic"),
        "onnxruntime-int8-dynamic-per-tensor": Kind(
            "int8", packages=("onnxruntime",), maker="paddleship.conversion.quantizing:dynamic_per_tensor"
        ),
        "onnxruntime-int8": Kind("int8", packages=("onnxruntime",), maker="paddleship.conversion.quantizing:static", calibrated=True),
    },
    requirements="onnxruntime.txt",
    distributions=("onnxruntime", "onnxruntime-gpu"),
    settings={"spinning": [True, False], "optimization_level": [99, 2, 1], "memory_pattern": [True, False], "arena": [True, False]},
    thread_settings=frozenset({"spinning"}),
    weights="paddleship.weights.onnx_files:read",
    any_thread=True,
    logs_passes=True,
    not_served=(
        "onnxruntime/tools",
        "onnxruntime/transformers",
        "onnxruntime/quantization",
        "onnxruntime/capi/libonnxruntime.so*",  # for programs in C; the module for Python contains all of it
    ),
)
