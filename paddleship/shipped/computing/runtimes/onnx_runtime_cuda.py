"""ONNX Runtime on an NVIDIA GPU, by its CUDA provider: the exported program as ONNX. Written from what was measured on an NVIDIA H200.

TF32, the provider's default, is off unless the candidate's precision is `tf32`: with it, matrix products keep 10 of 23 bits.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import CandidateError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import named_outputs, nvidia, onnx_runtime
from paddleship.shipped.computing.runtimes.onnx_runtime import OnnxRuntime
from paddleship.shipped.computing.runtimes.registration import Kind, Registration
from paddleship.shipped.computing.spec import Arrays

PROVIDER = "CUDAExecutionProvider"
_FOR_CPUS = "the installed ONNX Runtime is built for CPUs: run `make clean setup RUNTIME=cuda`"
_MOST_GRAPHS = 32  # captured graphs of one session, because each holds its own memory on the GPU
_NOT_CAPTURED = -1  # the id of a run without a graph

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class CapturedProgram:
    """One captured CUDA graph: the inputs and outputs on the device whose addresses it uses, and its run options."""

    binding: Any
    inputs: Mapping[str, Any]
    outputs: list[Any]
    options: Any

    def run(self, session: Any, inputs: Mapping[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        for name, value in self.inputs.items():
            value.update_inplace(inputs[name])
        session.run_with_iobinding(self.binding, self.options)
        return [value.numpy().copy() for value in self.outputs]


class CapturingRuntime:
    """Answers each shape of its inputs by a CUDA graph, captured when the shape is first seen; all other shapes by plain runs.

    `refused` has the shapes that ONNX Runtime could not capture, with the reason. Raises CandidateError if the first one is refused.
    """

    def __init__(self, session: Any, candidate: Candidate, *, device: str = "cuda") -> None:
        self._session, self._candidate, self._device = session, candidate, device
        self._names = [item.name for item in session.get_inputs()]
        self._programs: dict[Shapes, CapturedProgram] = {}
        self.refused: dict[Shapes, str] = {}

    def run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        own = {name: np.asarray(inputs[name], order="C") for name in self._names}
        shapes = tuple(array.shape for array in own.values())
        if program := self._programs.get(shapes):
            return named_outputs(self._candidate, program.run(self._session, own), inputs)
        answer = self._session.run(None, own, _run_options(_NOT_CAPTURED))
        if shapes not in self.refused and len(self._programs) < _MOST_GRAPHS and all(array.size for array in (*own.values(), *answer)):
            self._capture(shapes, own, answer)
        return named_outputs(self._candidate, answer, inputs)

    def _capture(self, shapes: Shapes, inputs: Mapping[str, np.ndarray[Any, Any]], answer: list[np.ndarray[Any, Any]]) -> None:
        from onnxruntime import OrtValue

        binding = self._session.io_binding()
        on_device = {name: OrtValue.ortvalue_from_numpy(array.copy(), self._device) for name, array in inputs.items()}
        outputs = [OrtValue.ortvalue_from_shape_and_type(array.shape, array.dtype, self._device) for array in answer]
        for name, value in on_device.items():
            binding.bind_ortvalue_input(name, value)
        for item, value in zip(self._session.get_outputs(), outputs, strict=True):
            binding.bind_ortvalue_output(item.name, value)
        program = CapturedProgram(binding, on_device, outputs, _run_options(len(self._programs)))
        try:
            program.run(self._session, inputs)
        except Exception as error:
            self.refused[shapes] = " ".join(str(error).split())[-300:]
            if not self._programs:
                raise CandidateError(_refusal(self.refused[shapes])) from None
            return
        self._programs[shapes] = program


def unavailable() -> str:
    """Why these candidates cannot run on this machine, with the next step; empty if they can."""
    return without_build() or nvidia.no_gpu()


def without_build() -> str:
    """Why the installed ONNX Runtime cannot use a GPU, with the next step; empty if it can."""
    try:
        distribution("onnxruntime-gpu")
    except PackageNotFoundError:
        return _FOR_CPUS
    return ""


def require_build(provider: str) -> None:
    """Raise CandidateError unless the installed ONNX Runtime has this provider."""
    import onnxruntime

    if provider not in onnxruntime.get_available_providers():
        raise CandidateError(_FOR_CPUS)


def load(folder: Path, candidate: Candidate) -> OnnxRuntime | CapturingRuntime:
    """Load on the first GPU. Raises CandidateError if ONNX Runtime would compute on the CPU instead, or refuses the CUDA graph."""
    import onnxruntime

    require_build(PROVIDER)
    if f"libcublasLt.so.{onnxruntime.cuda_version.partition('.')[0]}" not in nvidia.preload():
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it does not find
            onnxruntime.preload_dlls()
    captured = bool(candidate.options.get("cuda_graph"))
    try:
        session = onnx_runtime.session(folder, candidate, PROVIDER, provider_options(candidate))
    except CandidateError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split())
        if captured and "graph capture" in reason:
            raise CandidateError(_refusal(reason[-300:])) from None
        raise
    require_provider(session.get_providers(), libraries(Path(onnxruntime.__file__).parent / "capi", "cuda"))
    return CapturingRuntime(session, candidate) if captured else OnnxRuntime(session, candidate)


def provider_options(candidate: Candidate) -> dict[str, str]:
    """The options of the CUDA provider.

    The exhaustive search for a convolution's algorithm is not used: it decides by time, so two processes may round differently.
    """
    return {
        "use_tf32": str(int(candidate.precision == "tf32")),
        "cudnn_conv_algo_search": candidate.options.get("convolution_search", "HEURISTIC"),
        "prefer_nhwc": str(int(candidate.options.get("nhwc", False))),
        "enable_cuda_graph": str(int(candidate.options.get("cuda_graph", False))),
    }


def libraries(capi: Path, provider: str) -> list[Path]:
    """The libraries of a provider, `cuda` or `tensorrt`, in the folder with those of ONNX Runtime."""
    return [capi / f"libonnxruntime_providers_{name}.so" for name in ("shared", provider)]


def require_provider(providers: list[str], own: Sequence[Path], provider: str = PROVIDER) -> None:
    """Raise CandidateError unless this provider computes, whose libraries are `own`; the message names what is missing."""
    if providers[0] == provider:
        return
    why = nvidia.why_not_loaded(own) or nvidia.no_gpu() or "it gives no reason: see the log of the process"
    raise CandidateError(f"ONNX Runtime fell back from {provider} to {providers[0]}, because {why}")


def _run_options(graph: int) -> Any:
    from onnxruntime import RunOptions

    options = RunOptions()
    options.add_run_config_entry("gpu_graph_id", str(graph))
    return options


def _refusal(reason: str) -> str:
    return f"ONNX Runtime captures no CUDA graph of this program, and the candidate `onnxruntime-cuda` runs it without ({reason})"


def _kind(precision: str = "float32", **values: Any) -> Kind:
    return Kind(precision, packages=("onnxruntime",), gpu=True, unavailable=unavailable, **values)


# Of NVIDIA's packages: headers, static libraries, and the interfaces of FFTW and BLAS, which nothing in an image links.
NOT_SERVED = ("nvidia/**/include", "nvidia/**/*.a", "nvidia/**/libcufftw.so*", "nvidia/**/libnvblas.so*")

RUNTIME = Registration(
    name="onnxruntime-cuda",
    load=load,
    source="onnx",
    candidates={
        "onnxruntime-cuda": _kind(examined=True),
        "onnxruntime-cuda-graph": _kind(options={"cuda_graph": True}, per_shape=True),
        "onnxruntime-cuda-tf32": _kind("tf32"),
        "onnxruntime-cuda-float16": _kind(
            "float16",
            maker="paddleship.conversion.half_precision:convert",
            calibrated=True,
            weights="paddleship.weights.onnx_files:read_float16",
        ),
    },
    requirements="onnxruntime-cuda.txt",
    distributions=("onnxruntime-gpu",),
    settings={"convolution_search": ["HEURISTIC", "DEFAULT"], "nhwc": [False, True]},
    weights="paddleship.weights.onnx_files:read",
    logs_passes=True,
    not_served=(*onnx_runtime.RUNTIME.not_served, *NOT_SERVED, "onnxruntime/capi/libonnxruntime_providers_tensorrt.so"),
    optional_libraries=("nvidia/**/*.so*",),
    release_preloaded=nvidia.release_preloaded,
    unmodified=("nvidia/**",),  # "you may not … modify" (2.2 of its licence); there would be 25 kB to remove
)
