"""The one door to NVIDIA's management library (NVML): which GPUs there are, and what processes hold on them.

Never run on a real GPU by us.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any


def used_bytes(pids: Collection[int]) -> int | None:
    """Memory that these processes hold, summed over all devices; None where they hold none, or nobody can tell.

    Nobody can without the package `nvidia-ml-py`, a driver or a GPU, and where the driver knows processes by other numbers, as
    it does for a container without those of the host.
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
    """The GPUs of this host, as their driver calls them; none where nobody can tell."""
    if (nvml := library()) is None:
        return []
    try:
        return [str(nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(index))) for index in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError:
        return []


@cache
def library() -> Any:
    """The library, ready to be asked; None where it, or what it asks, is not there."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml
