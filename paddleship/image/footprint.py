"""How large an image will be, before it is built: the pinned packages of its runtime as they are installed here, and the candidate."""

from __future__ import annotations

from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from paddleship.image import requirements as pinned

NOT_SERVED = (  # below the folder that packages are installed in; `**` stands for any depth
    "**/tests",
    "**/*.pyi",
    "bin",
    "numpy/f2py",
    "onnxruntime/tools",
    "onnxruntime/transformers",
    "onnxruntime/quantization",
    "openvino/tools",
    "openvino/include",
    "openvino/cmake",
    "openvino/libs/cache.json",  # compiled kernels for GPUs
    "openvino/libs/libopenvino_intel_[gn]pu_plugin.so",
    *(f"openvino/libs/libopenvino_{name}_frontend.so*" for name in ("gguf", "jax", "paddle", "pytorch", "tensorflow*")),
    "paddle/include",
    "paddle/libs/libopenvino_intel_cpu_plugin.so",
)


def image_bytes(requirements: Path, candidate: Path) -> int | None:
    """Bytes on top of the base image, compiled Python apart; None where a pinned package is not installed here."""
    if not requirements.exists():
        return None
    try:
        packages = sum(_package_bytes(name) for name in pinned.names(requirements))
    except PackageNotFoundError:
        return None
    return packages + sum(path.stat().st_size for path in candidate.rglob("*") if path.is_file())


def _package_bytes(name: str) -> int:
    kept = [file for file in distribution(name).files or [] if not _left_out(str(file))]
    return sum(path.stat().st_size for file in kept if (path := Path(str(file.locate()))).is_file())


def _left_out(file: str) -> bool:
    parts = PurePosixPath(file).parts
    return ".." in parts or "__pycache__" in parts or any(_meets(parts, pattern.split("/")) for pattern in NOT_SERVED)


def _meets(parts: tuple[str, ...], pattern: list[str]) -> bool:
    if pattern[0] == "**":
        return any(fnmatch(part, pattern[1]) for part in parts)
    return len(parts) >= len(pattern) and all(map(fnmatch, parts, pattern))
