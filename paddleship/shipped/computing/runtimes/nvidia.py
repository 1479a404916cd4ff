"""NVIDIA's GPUs and libraries, asked through the driver and the loader: this needs no package, and makes no CUDA context."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from paddleship.errors import CandidateError

_DRIVER, _MANAGEMENT = "libcuda.so.1", "libnvidia-ml.so.1"
_NAME_BYTES = 96  # NVML_DEVICE_NAME_V2_BUFFER_SIZE
_preloaded: list[int] = []  # handles of the loader
_HIDDEN = ("", "-1")  # values of CUDA_VISIBLE_DEVICES that hide every GPU
_PACKAGES = {  # in the order in which they need each other
    "libcudart": "nvidia-cuda-runtime",
    "libcublasLt": "nvidia-cublas",
    "libcublas": "nvidia-cublas",
    "libnvJitLink": "nvidia-nvjitlink",
    "libnvrtc": "nvidia-cuda-nvrtc",
    "libcurand": "nvidia-curand",
    "libcufft": "nvidia-cufft",
    "libcudnn": "nvidia-cudnn-cu13",
}
_ADVICE = "use a machine with an NVIDIA GPU and its driver; in a container, start it with `--gpus all`"


def no_gpu() -> str:
    """Why a process here cannot use an NVIDIA GPU, with the next step; empty if it can."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all") in _HIDDEN:
        return "CUDA_VISIBLE_DEVICES hides every GPU: unset it"
    try:
        library = ctypes.CDLL(_MANAGEMENT)
    except OSError:
        return f"there is no NVIDIA driver here ({_MANAGEMENT} is missing): {_ADVICE}"
    count = ctypes.c_uint(0)
    if status := library.nvmlInit_v2() or library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return f"the NVIDIA driver does not answer (NVML error {status}): {_ADVICE}"
    return "" if count.value else f"the NVIDIA driver finds no GPU: {_ADVICE}"


def names() -> list[str]:
    """The names of the GPUs here, in NVML's order, also of hidden ones; empty without a driver."""
    try:
        library = ctypes.CDLL(_MANAGEMENT)
    except OSError:
        return []
    count = ctypes.c_uint(0)
    if library.nvmlInit_v2() or library.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return []
    return [_name(library, index) for index in range(count.value)]


def driver() -> str:
    """The version of the driver; empty without one."""
    version = ctypes.create_string_buffer(_NAME_BYTES)
    try:
        library = ctypes.CDLL(_MANAGEMENT)
    except OSError:
        return ""
    return "" if library.nvmlInit_v2() or library.nvmlSystemGetDriverVersion(version, _NAME_BYTES) else version.value.decode()


def _name(library: ctypes.CDLL, index: int) -> str:
    device, name = ctypes.c_void_p(), ctypes.create_string_buffer(_NAME_BYTES)
    failed = library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)) or library.nvmlDeviceGetName(device, name, _NAME_BYTES)
    return "an unknown GPU" if failed else name.value.decode(errors="replace")


def require_model(name: str) -> None:
    """Raise CandidateError unless all GPUs here have this name; an empty name allows all."""
    if not name:
        return
    here = sorted(set(names())) or [f"none whose name is known ({no_gpu() or 'NVML gives none'})"]
    if here != [name]:
        raise CandidateError(
            f"this image has only the libraries that {name} needs, and the GPU here is {' and '.join(here)}: start it on {name}, or build "
            "it again with package.unused_libraries: keep"
        )


def preload() -> set[str]:
    """Load the libraries of NVIDIA's packages, in whichever folder of the import path they are installed. Returns their file names.

    ONNX Runtime loads some when an operator first needs them, and then finds only those that are loaded already.
    """
    spec = find_spec("nvidia")
    folders = [Path(folder) for folder in spec.submodule_search_locations or ()] if spec else []
    paths = [path for folder in folders for prefix in _PACKAGES for path in sorted(folder.glob(f"*/lib/{prefix}*.so.*"))]
    return load(path for path in paths if not path.name.startswith("libcudnn_"))  # cuDNN loads its parts itself


def load(paths: Iterable[Path]) -> set[str]:
    """Load libraries in this order, until `release_preloaded`; those that the loader refuses are left out. Returns their file names."""
    names = set()
    for path in paths:
        with suppress(OSError):
            _preloaded.append(ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)._handle)
            names.add(path.name)
    return names


def release_preloaded() -> None:
    """Release what `preload` loaded, so that only libraries stay mapped that something else uses. Nothing can be computed afterwards."""
    release = ctypes.CDLL(None).dlclose
    release.argtypes = [ctypes.c_void_p]
    while _preloaded:
        release(_preloaded.pop())


def why_not_loaded(libraries: Iterable[Path]) -> str:
    """The first of these libraries that the loader refuses, in one line with the next step; empty if all load, in this order."""
    for path in libraries:
        try:
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            missing = str(error).partition(":")[0]
            return f"{missing} is missing: {_install(missing)}" if "cannot open shared object" in str(error) else str(error)
    return ""


def _install(library: str) -> str:
    """Where a library comes from that the loader does not find."""
    if library == _DRIVER:
        return f"it belongs to NVIDIA's driver: {_ADVICE}"
    if library.startswith(("libnvinfer", "libnvonnxparser")):
        return "it belongs to TensorRT: install what docker/requirements/onnxruntime-tensorrt.txt pins"
    package = next((package for prefix, package in _PACKAGES.items() if library.startswith(prefix)), "")
    return (
        f"it is in the package {package}: install it with `make clean setup RUNTIME=cuda`" if package else "install the package that has it"
    )
