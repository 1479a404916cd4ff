"""The only module that uses NVIDIA's management library (NVML): GPUs of this host, and the memory of processes on them.

Tested on one NVIDIA H100 (tests/test_gpu.py); several GPUs, and a driver that refuses, only with a stand-in.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any


def used_bytes(pids: Collection[int]) -> int | None:
    """GPU memory of these processes in bytes, summed over all devices; None if they hold none or it is unknown.

    It is unknown without the package `nvidia-ml-py`, a driver or a GPU, and in a container without the process ids of the host.
    """
    if (nvml := library()) is None:
        return None
    try:
        devices = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        held = [process for device in devices for process in nvml.nvmlDeviceGetComputeRunningProcesses(device)]
    except nvml.NVMLError:
        return None
    return sum(process.usedGpuMemory or 0 for process in held if process.pid in pids) or None


def names() -> list[str]:
    """The names of this host's GPUs; empty if they are unknown."""
    if (nvml := library()) is None:
        return []
    try:
        return [str(nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(index))) for index in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError:
        return []


@cache
def library() -> Any:
    """The initialised library; None without the library or a driver."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml
