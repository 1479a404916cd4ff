"""The facts about a host that a measurement depends on."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from paddleship.errors import BadInput
from paddleship.system import devices
from paddleship.system.environment import installed

_PACKAGES = ("paddlepaddle", "paddlepaddle-gpu", "numpy")


def fingerprint() -> dict[str, str]:
    """Processor, cores, memory, GPUs with their settings, system and the versions of Python, Paddle and numpy, as a flat dict."""
    return {
        "processor": _processor(),
        "cores": str(len(core_numbers())),
        "memory_gib": str(round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)),
        "system": platform.platform(),
        "python": platform.python_version(),
        **devices.facts(),
        **installed(_PACKAGES),
    }


def describe() -> str:
    """Name, processor and number of cores of this machine, as text."""
    return f"{platform.node()} ({_processor()}, {len(core_numbers())} cores)"


def core_numbers() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def require_same(earlier: Mapping[str, str], now: Mapping[str, str], *, what: str) -> None:
    """Raise BadInput if two measurements are from unlike hosts; `what` names the earlier one."""
    fields = [name for name in dict.fromkeys([*earlier, *now]) if earlier.get(name) != now.get(name)]
    if fields:
        differences = "; ".join(f"{name} was {earlier.get(name, 'absent')!r}, is {now.get(name, 'absent')!r}" for name in fields)
        raise BadInput(f"{what} was measured on another host ({differences}): measure both on one, and compare those")


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
