"""The libraries that compute and convert: their versions, and the code of runtimes in users' packages."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path

from paddleship.errors import RegistrationError
from paddleship.shipped.computing.files import sha256, tree_sha256
from paddleship.shipped.computing.runtimes import registry
from paddleship.system import environment


def versions() -> dict[str, str]:
    """The installed versions, and a hash of the code of each runtime outside paddleship, which may change without a new version."""
    foreign = {name: one.entry_point for name, one in registry.found().items() if one.entry_point is not None}
    hashes = {name: tree_sha256({file: sha256(path) for file, path in files_of(point).items()}) for name, point in foreign.items()}
    return environment.versions(registry.distributions()) | {f"runtime {name}": digest for name, digest in hashes.items()}


def files_of(point: EntryPoint) -> Mapping[str, Path]:
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
