"""Versions of the installed libraries that compute or convert: candidates, proofs and latencies depend on them."""

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
    """The versions of Python, of PACKAGES and of the runtimes' distributions, as far as they are installed, and the platform."""
    return {"python": platform.python_version(), "machine": platform.machine(), **installed((*PACKAGES, *runtimes))}


def installed(names: Iterable[str]) -> dict[str, str]:
    """The versions of installed distributions, from their metadata; nothing is imported."""
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
