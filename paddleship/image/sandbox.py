"""Load a candidate with only the packages that its image contains, whatever else is installed here.

For a child process, which stays restricted. Modules that the parent had imported are removed if the image lacks them.
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

from paddleship.shipped.computing import runtimes

_ALWAYS = frozenset({"paddleship", "paddle"})  # the distribution of paddle has another name in its GPU build


def load(folder: Path, packages: Iterable[str]) -> runtimes.Runtime:
    """Load the candidate in `folder`, in a process that can import only these packages."""
    confine([path for package in packages for path in _modules(package)])
    return runtimes.load(folder)


def confine(paths: Iterable[Path]) -> None:
    """Restrict imports of this process to the standard library and these top-level modules with their submodules."""
    allowed = {*_ALWAYS, *sys.stdlib_module_names, *(path.name.partition(".")[0] for path in paths)}
    for name in list(sys.modules):
        if (root := name.partition(".")[0]) not in allowed and not root.startswith("__"):
            del sys.modules[name]
    folders = tuple(f"{path}/" for path in paths)
    sys.meta_path[:] = [*(_Confined(finder, allowed) for finder in sys.meta_path), _Carried(folders)]


class _Confined:
    """A finder that finds only allowed modules."""

    def __init__(self, finder: Any, allowed: set[str]) -> None:
        self._finder, self._allowed = finder, allowed

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        known = name.partition(".")[0] in self._allowed
        spec: ModuleSpec | None = self._finder.find_spec(name, path, target) if known else None
        return spec


class _Carried:
    """Finds packages that other packages contain (as setuptools does), and Python's modules named after the platform."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = folders
        self._python = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        entries = sys.path if path is None else path
        inside = [entry for entry in entries if entry in self._python or entry.startswith(self._folders)]
        return PathFinder.find_spec(name, inside, target)


def _modules(package: str) -> set[Path]:
    """The paths of the top-level modules of an installed package; empty if it is not installed here."""
    try:
        installed = distribution(package)
    except PackageNotFoundError:
        return set()
    tops = {PurePosixPath(file).parts[0] for file in installed.files or [] if str(file).endswith((".py", ".so", ".pyi"))}
    return {Path(str(installed.locate_file(top))) for top in tops}
