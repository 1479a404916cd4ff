"""The code of a runtime in a user's package: its hash for candidates, and its copy for the image."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

from paddleship.errors import RegistrationError
from paddleship.shipped.common.files import sha256, tree_sha256, write_text
from paddleship.shipped.runtimes import registry
from paddleship.shipped.runtimes.registry import GROUP, Registered


def facts() -> dict[str, str]:
    """A hash of the files of each runtime outside paddleship, because its code may change without a new version."""
    foreign = {name: one.entry_point for name, one in registry.found().items() if one.entry_point is not None}
    hashes = {name: tree_sha256({file: sha256(path) for file, path in _files(point).items()}) for name, point in foreign.items()}
    return {f"runtime {name}": digest for name, digest in hashes.items()}


def lay_out(one: Registered, target: Path) -> None:
    """Copy the module or package that a runtime's entry point names into `target`, with metadata for the entry point."""
    point = one.entry_point
    if point is None:
        return
    for file, path in _files(point).items():
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target / file)
    name, version = (point.dist.name, point.dist.version) if point.dist else (point.name, "0")
    metadata = target / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir(exist_ok=True)
    write_text(metadata / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    write_text(metadata / "entry_points.txt", f"[{GROUP}]\n{point.name} = {point.value}\n")


def _files(point: EntryPoint) -> Mapping[str, Path]:
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
