"""The size of an image before it is built: the pinned packages of its runtime as they are installed here, and the candidate."""

from __future__ import annotations

from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

from paddleship.errors import CandidateError
from paddleship.image import requirements
from paddleship.shipped.runtimes.registration import Registration

_NOT_SERVED = ("**/tests", "**/*.pyi", "bin", "numpy/f2py")  # below the folder of packages; `**` matches any depth


def not_served(runtime: Registration) -> tuple[str, ...]:
    """Patterns of files in packages that a server does not need."""
    return (*_NOT_SERVED, *runtime.not_served)


def image_bytes(runtime: Registration, candidate: Path) -> int | None:
    """Bytes on top of the base image, without compiled Python; None if a pinned package is unknown or not installed here."""
    try:
        pins, patterns = requirements.of(runtime), not_served(runtime)
        packages = sum(_package_bytes(name, patterns) for name in requirements.names(pins))
    except (CandidateError, PackageNotFoundError):
        return None
    return packages + sum(path.stat().st_size for path in candidate.rglob("*") if path.is_file())


def _package_bytes(name: str, patterns: tuple[str, ...]) -> int:
    kept = [file for file in distribution(name).files or [] if not _left_out(str(file), patterns)]
    return sum(path.stat().st_size for file in kept if (path := Path(str(file.locate()))).is_file())


def _left_out(file: str, patterns: tuple[str, ...]) -> bool:
    parts = PurePosixPath(file).parts
    return ".." in parts or "__pycache__" in parts or any(_meets(parts, pattern.split("/")) for pattern in patterns)


def _meets(parts: tuple[str, ...], pattern: list[str]) -> bool:
    if pattern[0] == "**":
        return any(fnmatch(part, pattern[1]) for part in parts)
    return len(parts) >= len(pattern) and all(map(fnmatch, parts, pattern))
