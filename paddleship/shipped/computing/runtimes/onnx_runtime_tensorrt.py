"""TensorRT, by ONNX Runtime's provider for it: the whole program as one engine. Written from its sources; never run on a GPU.

An engine belongs to a model of GPU, a driver and a version of TensorRT. A second build gives another one, because TensorRT chooses kernels
by the time that they take. So the first load, in `optimize`, builds it, it is part of the candidate, and nothing ever builds it again: what
is served is what was proven. On another machine a candidate is refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from paddleship.errors import CandidateError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import new_folder
from paddleship.shipped.computing.runtimes import nvidia, onnx_runtime, onnx_runtime_cuda
from paddleship.shipped.computing.runtimes.onnx_runtime import OnnxRuntime
from paddleship.shipped.computing.runtimes.registration import Kind, Registration
from paddleship.shipped.computing.spec import batch_dimension, row_dimensions

PROVIDER = "TensorrtExecutionProvider"
ENGINES = "engines"  # the folder of a candidate with a folder for the GPU, driver and version of its engine
_LIBRARIES = "tensorrt-cu13-libs"  # the package; its wheels are in NVIDIA's own index
_MODULE, _LOADED = "tensorrt_libs", ("libnvinfer.so.*", "libnvinfer_plugin.so.*", "libnvonnxparser.so.*")
_WITHOUT_CPU = {"session.disable_cpu_ep_fallback": "1"}
_NO_TF32 = ("NVIDIA_TF32_OVERRIDE", "0")  # the provider has no option for it, and TensorRT's own default is TF32
_EXACT = {"trt_fp16_enable": "0", "trt_bf16_enable": "0", "trt_int8_enable": "0", "trt_engine_cache_enable": "0"}
_NOT_WHOLE = "TensorRT does not take the whole program ({}): use `onnxruntime-cuda`"

Ends = tuple[int, int, int]  # the smallest, the fastest and the largest size of a dimension


def unavailable() -> str:
    """Why this candidate cannot run on this machine, with the next step; empty if it can."""
    if why := onnx_runtime_cuda.without_build():
        return why
    try:
        version(_LIBRARIES)
    except PackageNotFoundError:
        return f"TensorRT is not installed: install {_LIBRARIES}, as docker/requirements/onnxruntime-tensorrt.txt pins it"
    return nvidia.no_gpu()


def load(folder: Path, candidate: Candidate) -> OnnxRuntime:
    """Load the engine in `folder`, which is built where there is none yet.

    Raises CandidateError if it is that of another machine, if TensorRT does not take the whole program, or if a library is missing.
    """
    onnx_runtime_cuda.require_build(PROVIDER)
    os.environ.update([_NO_TF32])  # when the engine is built and when it runs, before the first of NVIDIA's libraries is loaded
    nvidia.preload()
    nvidia.load(_tensorrt())
    here = place(nvidia.names(), nvidia.driver(), version(_LIBRARIES))
    if not (folder / ENGINES).is_dir():
        build(folder, candidate, here)
    if not (folder / ENGINES / here).is_dir():
        there = ", ".join(sorted(path.name for path in (folder / ENGINES).iterdir()))
        raise CandidateError(
            f"candidate {candidate.name!r} has an engine for {there}, and here is {here}: TensorRT would build another one, which nothing "
            "has proven; run `paddleship run --again optimize` on this machine"
        )
    return OnnxRuntime(_session(folder / ENGINES / here, candidate, {}), candidate)


def place(gpus: Iterable[str], driver: str, tensorrt: str) -> str:
    """The name of the folder of an engine: of GPU, driver and version. Raises CandidateError unless all GPUs are of one known model."""
    models = sorted(set(gpus))
    if len(models) != 1 or not driver:
        raise CandidateError(
            f"an engine of TensorRT is for one model of GPU, and here is {' and '.join(models) or 'none whose name is known'}: use "
            "`onnxruntime-cuda`"
        )
    return "_".join(re.sub(r"[^A-Za-z0-9.]+", "-", part) for part in (models[0], f"driver-{driver}", f"tensorrt-{tensorrt}"))


def build(folder: Path, candidate: Candidate, here: str) -> None:
    """Build the engine of model.onnx in `folder` for every size that the candidate takes. Raises CandidateError."""
    with new_folder(folder / ENGINES) as engines:
        target = engines / here
        target.mkdir()
        kept = {"trt_dump_ep_context_model": "1", "trt_ep_context_embed_mode": "1", "trt_ep_context_file_path": str(target / "model.onnx")}
        _session(folder, candidate, profiles(candidate) | kept)
        if not (target / "model.onnx").is_file():
            raise CandidateError(_NOT_WHOLE.format("ONNX Runtime kept no engine"))


def profiles(candidate: Candidate) -> dict[str, str]:
    """The options with the smallest, the fastest and the largest size of every input; empty if all sizes are fixed.

    The fastest is one row as large as the largest of the real batches. Raises CandidateError for a dimension without a largest size.
    """
    ends = _batch_ends(candidate) | {name: _ends(candidate, name) for name in row_dimensions(candidate.inputs)}
    if not ends:
        return {}
    return {f"trt_profile_{end}_shapes": _shapes(candidate, ends, index) for index, end in enumerate(("min", "opt", "max"))}


def _batch_ends(candidate: Candidate) -> dict[str, Ends]:
    batch = batch_dimension(candidate.inputs)
    return {batch: (1, 1, candidate.max_batch)} if batch else {}


def _ends(candidate: Candidate, name: str) -> Ends:
    """The smallest, the fastest and the largest size of a dimension of rows."""
    rule = next((rule for rule in candidate.dimensions if rule.name == name), None)
    if rule is None or rule.high is None:
        raise CandidateError(f"TensorRT needs the largest size of {name!r}: give its range in model.dimensions")
    axes = [(spec.name, axis) for spec in candidate.inputs for axis, size in enumerate(spec.shape) if size == name]
    real = [shapes[tensor][axis] for shapes in candidate.warm_shapes for tensor, axis in axes]
    return rule.smallest, rule.nearest(max(real, default=rule.high)), rule.nearest(rule.high)


def _shapes(candidate: Candidate, ends: Mapping[str, Ends], index: int) -> str:
    """The shapes of all inputs with a dynamic one, as ONNX Runtime reads them."""
    dynamic = [spec for spec in candidate.inputs if any(isinstance(size, str) for size in spec.shape)]
    return ",".join(
        f"{spec.name}:{'x'.join(str(ends[size][index] if isinstance(size, str) else size) for size in spec.shape)}" for spec in dynamic
    )


def _session(folder: Path, candidate: Candidate, options: Mapping[str, str]) -> Any:
    """A session of model.onnx in `folder` that computes on TensorRT alone. Raises CandidateError."""
    import onnxruntime

    libraries = onnx_runtime_cuda.libraries(Path(onnxruntime.__file__).parent / "capi", "tensorrt")
    try:
        session = onnx_runtime.session(folder, candidate, PROVIDER, {**_EXACT, **options}, entries=_WITHOUT_CPU)
    except CandidateError:
        raise
    except Exception as error:  # also where the provider is replaced by the CPU, which takes no operator here
        if why := nvidia.why_not_loaded(libraries):
            raise CandidateError(f"ONNX Runtime has no {PROVIDER}, because {why}") from None
        raise CandidateError(_NOT_WHOLE.format(" ".join(str(error).split())[-300:])) from None
    onnx_runtime_cuda.require_provider(session.get_providers(), libraries, PROVIDER)
    return session


def _tensorrt() -> list[Path]:
    """TensorRT's libraries that ONNX Runtime loads, in the order in which they need each other."""
    spec = find_spec(_MODULE)
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
    return [path for folder in folders for pattern in _LOADED for path in sorted(folder.glob(pattern))]


RUNTIME = Registration(
    name="onnxruntime-tensorrt",
    load=load,
    source="onnx",
    candidates={"onnxruntime-tensorrt": Kind(packages=("onnxruntime",), gpu=True, unavailable=unavailable)},
    requirements="onnxruntime-tensorrt.txt",
    distributions=("onnxruntime-gpu", _LIBRARIES),
    not_served=(
        *onnx_runtime.RUNTIME.not_served,
        *onnx_runtime_cuda.NOT_SERVED,
        f"{_MODULE}/libnvinfer_builder_resource*",  # with which engines are built
    ),
    optional_libraries=(*onnx_runtime_cuda.RUNTIME.optional_libraries, f"{_MODULE}/*.so*"),
    release_preloaded=nvidia.release_preloaded,
    unmodified=(*onnx_runtime_cuda.RUNTIME.unmodified, f"{_MODULE}/**"),
)
