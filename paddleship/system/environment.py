"""What is installed here that computes or converts: on this a candidate, its proof and its latency depend."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    "paddlepaddle",
    "paddlepaddle-gpu",
    "paddle2onnx",
    "onnx",
    "onnx-graphsurgeon",
    "onnxruntime",
    "onnxruntime-gpu",
    "openvino",
    "nncf",
    "numpy",
    "scipy",
    "safetensors",
)


def versions() -> dict[str, str]:
    """Python, its platform, and the version of each of PACKAGES that is installed."""
    return {"python": platform.python_version(), "machine": platform.machine(), **installed(PACKAGES)}


def installed(names: tuple[str, ...]) -> dict[str, str]:
    """The versions of those that are installed, from their metadata alone: nothing is imported."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
