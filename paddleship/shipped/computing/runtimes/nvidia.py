"""NVIDIA's GPUs and libraries, asked through the driver and the loader: this needs no package, and makes no CUDA context."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

_DRIVER, _MANAGEMENT = "libcuda.so.1", "libnvidia-ml.so.1"
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


def preload() -> None:
    """Load the libraries of NVIDIA's packages, in whichever folder of the import path they are installed; absent ones are left out."""
    spec = find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec else ():
        for prefix in _PACKAGES:
            for path in sorted(Path(folder).glob(f"*/lib/{prefix}*.so.*")):
                if prefix != "libcudnn" or path.name.startswith("libcudnn.so"):  # cuDNN loads its parts itself
                    with suppress(OSError):
                        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


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
    package = next((package for prefix, package in _PACKAGES.items() if library.startswith(prefix)), "")
    return (
        f"it is in the package {package}: install it with `make clean setup RUNTIME=cuda`" if package else "install the package that has it"
    )
