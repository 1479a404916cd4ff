"""The facts about a host that a measurement depends on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("paddlepaddle", "paddlepaddle-gpu", "onnxruntime", "openvino", "numpy")


def fingerprint() -> dict[str, str]:
    """Processor, cores, memory, system and the versions of what computes; flat, so that two can be compared by field."""
    return {
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0))),
        "memory_gib": str(round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)),
        "system": platform.platform(),
        "python": platform.python_version(),
        **{name: found for name in _PACKAGES if (found := _version(name))},
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
