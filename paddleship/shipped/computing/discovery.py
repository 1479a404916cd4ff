"""Registrations: from the files of a package of paddleship, and from entry points of installed packages, whose code goes into the image."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

from paddleship.errors import RegistrationError
from paddleship.shipped.computing.files import sha256, tree_sha256

T = TypeVar("T")


@dataclass(frozen=True)
class Registered(Generic[T]):
    """A registration and its origin: a module of paddleship, or the entry point of an installed distribution."""

    registration: T
    module: str
    entry_point: EntryPoint | None = None

    def __str__(self) -> str:
        if self.entry_point is None:
            return self.module
        by = self.entry_point.dist
        return f"{self.entry_point.value} of {by.name} {by.version}" if by else self.entry_point.value


def in_package(package: str, folder: Path, constant: str, kind: type[T]) -> list[Registered[T]]:
    """The registrations in the modules of a package: the values of this constant that are of this type."""
    names = [f"{package}.{info.name}" for info in pkgutil.iter_modules([str(folder)])]
    modules = {name: getattr(import_module(name), constant, None) for name in sorted(names)}
    return [Registered(value, name) for name, value in modules.items() if isinstance(value, kind)]


def from_entry_points(group: str, kind: type[T]) -> list[Registered[T]]:
    """The registrations of installed packages. Raises RegistrationError."""
    points = sorted(entry_points(group=group), key=lambda point: point.value)
    return [Registered(_loaded(point, kind), point.module, point) for point in points]


def by_name(every: Iterable[Registered[T]], what: str) -> dict[str, Registered[T]]:
    """Registrations by their `name`, sorted by it; `what` they are. Raises RegistrationError if two have one name."""
    known: dict[str, Registered[T]] = {}
    for one in sorted(every, key=_name):
        if (name := _name(one)) in known:
            raise RegistrationError(f"two {what} are called {name!r}, in {known[name]} and in {one}: rename one or uninstall it")
        known[name] = one
    return known


def _name(one: Registered[Any]) -> str:
    return str(one.registration.name)


def code(point: EntryPoint) -> Mapping[str, Path]:
    """The files of the top-level module or package of an entry point, by path relative to the import path. Raises RegistrationError."""
    root = point.module.partition(".")[0]
    spec = find_spec(root)
    if spec is not None and spec.submodule_search_locations:
        folder = Path(next(iter(spec.submodule_search_locations)))
        every = [path for path in sorted(folder.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
        return {str(path.relative_to(folder.parent)): path for path in every}
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        raise RegistrationError(
            f"the code of the entry point {point.value!r} is not in a file, so it cannot be copied into an image: install it as files"
        )
    return {Path(spec.origin).name: Path(spec.origin)}


def code_sha256(point: EntryPoint) -> str:
    """A hash of the code of an entry point, which may change without a new version. Raises RegistrationError."""
    return tree_sha256({file: sha256(path) for file, path in code(point).items()})


def _loaded(point: EntryPoint, kind: type[T]) -> T:
    by = f"the entry point {point.name} = {point.value}" + (f" of {point.dist.name}" if point.dist else "") + f" in {point.group}"
    try:
        value: Any = point.load()
    except Exception as failure:
        raise RegistrationError(f"{by} cannot be loaded ({type(failure).__name__}: {failure}): fix it or uninstall it") from failure
    if not isinstance(value, kind):
        raise RegistrationError(f"{by} is {type(value).__name__}, not a {kind.__name__}: see docs/how-to/index.md")
    return value
