"""The only module that uses NVIDIA's management library (NVML): GPUs of this host, and the memory of processes on them.

Memory and names were tested on one NVIDIA H100 (tests/test_gpu.py); clocks, power limits, MIG, several GPUs, and a driver that refuses,
only with a stand-in.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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


def process_ids() -> frozenset[int]:
    """The processes that compute on a GPU of this host; empty if they are unknown. In a container, they are the host's process ids."""
    return frozenset(process.pid for device in _handles() for process in _asked("nvmlDeviceGetComputeRunningProcesses", device) or ())


def facts() -> dict[str, str]:
    """What a latency on GPUs depends on: driver, names, highest clocks, power limits and MIG of all GPUs; empty without a GPU."""
    handles = _handles()
    if not handles:
        return {}
    nvml = library()
    asked = {
        "gpus": [str(_asked("nvmlDeviceGetName", each)) for each in handles],
        "gpu_clocks_mhz": [_asked("nvmlDeviceGetMaxClockInfo", each, getattr(nvml, "NVML_CLOCK_SM", 1)) for each in handles],
        "gpu_memory_clocks_mhz": [_asked("nvmlDeviceGetMaxClockInfo", each, getattr(nvml, "NVML_CLOCK_MEM", 2)) for each in handles],
        "gpu_power_limits_w": [_watts(_asked("nvmlDeviceGetEnforcedPowerLimit", each)) for each in handles],
        "gpu_mig": [_switch(_asked("nvmlDeviceGetMigMode", each)) for each in handles],
    }
    known = {name: ", ".join(map(str, values)) for name, values in asked.items() if any(value is not None for value in values)}
    return {**known, **({"gpu_driver": str(driver)} if (driver := _asked("nvmlSystemGetDriverVersion")) else {})}


def _watts(milliwatts: int | None) -> int | None:
    return None if milliwatts is None else round(milliwatts / 1000)


def _switch(mode: Sequence[int] | None) -> str | None:
    return None if mode is None else "on" if mode[0] else "off"


def _handles() -> list[Any]:
    count = _asked("nvmlDeviceGetCount") or 0
    return [handle for index in range(count) if (handle := _asked("nvmlDeviceGetHandleByIndex", index)) is not None]


def _asked(function: str, *arguments: Any) -> Any:
    """The answer of the library; None if it has none, as a GPU without that feature."""
    if (nvml := library()) is None:
        return None
    try:
        return getattr(nvml, function)(*arguments)
    except nvml.NVMLError:
        return None


def names() -> list[str]:
    """The names of this host's GPUs; empty if they are unknown."""
    return [str(name) for handle in _handles() if (name := _asked("nvmlDeviceGetName", handle)) is not None]


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
