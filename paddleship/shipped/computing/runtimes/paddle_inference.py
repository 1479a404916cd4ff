"""Paddle Inference: the exported program in Paddle's own predictor.

It uses Paddle's extension module only. An image has that module and its libraries without the Python of Paddle, so `paddle` and
`paddle.base` are namespace packages there, and a start imports nothing else of Paddle.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import CandidateError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import named_outputs, nvidia
from paddleship.shipped.computing.runtimes.registration import PRUNED, Kind, Registration
from paddleship.shipped.computing.spec import Arrays

_GPU_POOL_MB = 256
_TENSORRT_BATCH = 32
_FOR_CPUS = "this Paddle is built for CPUs: install paddlepaddle-gpu from Paddle's own package index (extra `gpu`)"


class PaddleInference:
    def __init__(self, predictor: Any, candidate: Candidate) -> None:
        self._predictor = predictor
        self._candidate = candidate
        self._inputs = {name: predictor.get_input_handle(name) for name in predictor.get_input_names()}
        self._outputs = [predictor.get_output_handle(name) for name in predictor.get_output_names()]

    def run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        for name, handle in self._inputs.items():
            handle._copy_from_cpu_bind(np.asarray(inputs[name], order="C"))
        self._predictor.run()
        return named_outputs(self._candidate, [handle.copy_to_cpu() for handle in self._outputs], inputs)


def load(folder: Path, candidate: Candidate) -> PaddleInference:
    core = _core()
    core.disable_signal_handler()  # Paddle hooks SIGTERM, which stops the server
    parameters = folder / "model.pdiparams"
    config = core.AnalysisConfig(str(folder / "model.json"), str(parameters) if parameters.exists() else "")
    if not candidate.options.get("log_passes"):
        config.disable_glog_info()
    config.set_cpu_math_library_num_threads(candidate.threads)
    if candidate.options.get("onednn"):
        config.enable_mkldnn()
        if candidate.options.get("bfloat16"):
            config.enable_mkldnn_bfloat16()
    else:
        config.disable_mkldnn()  # on by default, with wrong answers on common networks
    for name in candidate.options.get("without_passes", ()):
        config.delete_pass(name)
    if "optimization_level" in candidate.options:
        config.set_optimization_level(candidate.options["optimization_level"])
    if candidate.options.get("gpu"):
        _use_gpu(core, config, candidate)
    if candidate.options.get("memory_optim"):
        config.enable_new_ir(True)  # without these two, enable_memory_optim raises if oneDNN is off
        config.enable_new_executor(True)
        config.enable_memory_optim()
    return PaddleInference(core.create_predictor(config), candidate)


def _core() -> Any:
    """Paddle's extension module, set up as Paddle's own Python does it, where that is not imported."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    libpaddle: Any = import_module("paddle.base.libpaddle")
    libpaddle._set_paddle_lib_path(str(Path(libpaddle.__file__).parents[1] / "libs"))
    return libpaddle


def _use_gpu(core: Any, config: Any, candidate: Candidate) -> None:
    """Use the first GPU, with TensorRT in half precision if the candidate asks for it. Not tested on a GPU. Raises CandidateError."""
    if not core.is_compiled_with_cuda():
        raise CandidateError(_FOR_CPUS)
    if not core.get_cuda_device_count():
        raise CandidateError("Paddle finds no GPU on this machine")
    half = core.AnalysisConfig.Precision.Half
    config.enable_use_gpu(_GPU_POOL_MB, 0)
    if candidate.options.get("tensorrt"):
        config.enable_tensorrt_engine(1 << 30, _TENSORRT_BATCH, 3, half, False, False)


def _without_gpu() -> str:
    """Why Paddle cannot use a GPU here, with the next step; empty if it can."""
    try:
        distribution("paddlepaddle-gpu")
    except PackageNotFoundError:
        return _FOR_CPUS
    return nvidia.no_gpu()


NOT_SERVED = ("paddle/include", "paddle/libs/libopenvino_intel_cpu_plugin.so")
_ZEROS = "no kernel of Paddle on a CPU is faster for weights that are zero: name it to try it"
RUNTIME = Registration(
    name="paddle",
    load=load,
    source="program",
    candidates={
        "paddle": Kind(options={"onednn": False}, exact=True, examined=True),
        "paddle-onednn": Kind(options={"onednn": True}, per_shape=True, examined=True),
        "paddle-onednn-bf16": Kind("bfloat16", options={"onednn": True, "bfloat16": True}, per_shape=True),
        "paddle-int8": Kind("int8", options={"onednn": False}, change="paddleship.conversion.ptq:quantise"),
        "paddle-pruned": Kind(PRUNED, options={"onednn": False}, not_by_default=_ZEROS, change="paddleship.conversion.pruning:prune"),
        "paddle-gpu": Kind(gpu=True, unavailable=_without_gpu, options={"onednn": False, "gpu": True}),
        "paddle-tensorrt-fp16": Kind(
            "float16", gpu=True, unavailable=_without_gpu, options={"onednn": False, "gpu": True, "tensorrt": True}
        ),
    },
    requirements="paddle.txt",
    settings={"memory_optim": [False, True]},
    weights="paddleship.weights.paddle_files:read",
    logs_passes=True,
    # the library dies without them: measured with 3.3.1 under emulation of Haswell without each, and of older processors
    processor_flags={"x86_64": ("avx2", "fma")},
    not_served=(*NOT_SERVED, "paddle/**/*.py", "paddle/**/*.json"),
    system_libraries=("libgomp.so.1",),  # the wheel needs it, and slim images do not have it
)
