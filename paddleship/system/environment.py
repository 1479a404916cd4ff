"""The versions of what is installed: on those of what computes or converts, a candidate, its proof and its latency depend."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    "paddlepaddle",
    "paddlepaddle-gpu",
    "paddle2onnx",
    "onnx",
    "onnx-graphsurgeon",
    "numpy",
    "scipy",
    "safetensors",
)


def versions(runtimes: Iterable[str]) -> dict[str, str]:
    """Python, its platform, and the version of each of PACKAGES and of the distributions of the runtimes that is installed."""
    return {"python": platform.python_version(), "machine": platform.machine(), **installed((*PACKAGES, *runtimes))}


def installed(names: Iterable[str]) -> dict[str, str]:
    """The versions of those that are installed, from their metadata alone: nothing is imported."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
