"""The size of an image before it is built: the pinned packages of its runtime as they are installed here, and the candidate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from pathspec import PathSpec

from paddleship.errors import CandidateError
from paddleship.image import requirements
from paddleship.image.shared_libraries import loaded_bytes
from paddleship.shipped.computing.runtimes.registration import Registration

# Below the folder of packages: tests, types, and sources in C, which a program in Python does not read; `**` matches any depth.
_NOT_SERVED = (
    "**/tests", "**/*_tests.*.so", "**/*.pyi", "**/py.typed", "**/*.h", "**/*.cuh", "**/*.c", "**/*.pyx", "**/*.pxd", "**/*.a",
    "bin", "numpy/f2py", "numpy/_core/_simd.*.so",
)  # fmt: skip


def not_served(runtime: Registration) -> tuple[str, ...]:
    """Patterns of files in packages that a server does not need."""
    return (*_NOT_SERVED, *runtime.not_served)


def image_bytes(runtime: Registration, candidate: Path, further: Sequence[str] = ()) -> int | None:
    """Bytes on top of the base image, without the compiled standard library; None if a pinned package is unknown or not installed here.

    `further` are the pins of packages that the candidate needs besides those of its runtime.
    """
    try:
        pins, pruned = {*requirements.of(runtime), *further}, not_served(runtime)
        packages = sum(_package_bytes(name, pruned) for name in requirements.names(pins))
    except (CandidateError, PackageNotFoundError):
        return None
    return packages + sum(path.stat().st_size for path in candidate.rglob("*") if path.is_file())


def matcher(patterns: Sequence[str]) -> PathSpec[Any]:
    """Matches files that the patterns name, or that lie in a folder that they name, as `Path.glob` finds them from the top."""
    return PathSpec.from_lines("gitignore", [f"/{pattern}" for pattern in patterns])


@cache
def _package_bytes(name: str, patterns: tuple[str, ...]) -> int:
    pruned = matcher(patterns)
    return sum(size for file, size in _sizes(name).items() if not pruned.match_file(file))


@cache  # candidates share packages with thousands of files
def _sizes(name: str) -> dict[str, int]:
    """The bytes that an image has of each file of an installed package, by its path below the folder of packages.

    A module counts twice, because its bytecode is about as large.
    """
    files = [file for file in distribution(name).files or [] if not {"..", "__pycache__"} & set(file.parts)]
    paths = {file.as_posix(): Path(str(file.locate())) for file in files}
    return {file: loaded_bytes(path) * (2 if path.suffix == ".py" else 1) for file, path in paths.items() if path.is_file()}
