"""A candidate loaded as in its image: what is not pinned for the image is not there, however it could be imported here.

For a process of its own, which stays confined. What the parent had imported is forgotten where the image lacks it.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

from paddleship.shipped import runtimes

_ALWAYS = frozenset({"paddleship", "paddle"})  # the latter has another name where it is built for GPUs


def load(folder: Path, packages: Iterable[str]) -> runtimes.Runtime:
    """The candidate in `folder`, in a process that imports only what these installed packages bring."""
    confine([place for package in packages for place in _modules(package)])
    return runtimes.load(folder)


def confine(places: Iterable[Path]) -> None:
    """Let this process import the standard library and these top-level modules alone, with what they bring inside them, from now on."""
    allowed = {*_ALWAYS, *sys.stdlib_module_names, *(place.name.partition(".")[0] for place in places)}
    for name in list(sys.modules):
        if (root := name.partition(".")[0]) not in allowed and not root.startswith("__"):
            del sys.modules[name]
    folders = tuple(f"{place}/" for place in places)
    sys.meta_path[:] = [*(_Confined(finder, allowed) for finder in sys.meta_path), _Carried(folders)]


class _Confined:
    """A finder that finds only what is allowed."""

    def __init__(self, finder: Any, allowed: set[str]) -> None:
        self._finder, self._allowed = finder, allowed

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        known = name.partition(".")[0] in self._allowed
        found: ModuleSpec | None = self._finder.find_spec(name, path, target) if known else None
        return found


class _Carried:
    """Finds what packages carry of others inside them, as setuptools does, and what Python calls after the platform."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = folders
        self._python = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        entries = sys.path if path is None else path
        inside = [entry for entry in entries if entry in self._python or entry.startswith(self._folders)]
        return PathFinder.find_spec(name, inside, target)


def _modules(package: str) -> set[Path]:
    """Where the top-level modules lie that an installed package brings; none where it is not installed here."""
    try:
        found = distribution(package)
    except PackageNotFoundError:
        return set()
    tops = {PurePosixPath(file).parts[0] for file in found.files or [] if str(file).endswith((".py", ".so", ".pyi"))}
    return {Path(str(found.locate_file(top))) for top in tops}
