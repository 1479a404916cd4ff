"""Versions of the installed libraries that compute or convert: candidates, proofs and latencies depend on them."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from paddleship.system import devices

GPU_BUILD = "-gpu"  # suffix of a library's build for GPUs, which is another distribution of the same modules
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
    """The versions of Python, of PACKAGES and of the runtimes' distributions, as far as they are installed, and the platform.

    With a library's build for GPUs, the names of the GPUs too: what can be made, and what it answers, depends on them.
    """
    found = installed((*PACKAGES, *runtimes))
    gpus = devices.names() if any(name.endswith(GPU_BUILD) for name in found) else []
    return {"python": platform.python_version(), "machine": platform.machine(), **found, **({"gpus": ", ".join(gpus)} if gpus else {})}


def installed(names: Iterable[str]) -> dict[str, str]:
    """The versions of installed distributions, from their metadata; nothing is imported."""
    versions = {}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
