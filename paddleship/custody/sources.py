"""Hashes of code: the user's, and two of this library.

A candidate is identified by what computes its answers. What serves them (HTTP, limits, messages) identifies an image only, so that another
message needs no new proof.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from paddleship.config.sections.code import Code
from paddleship.errors import BadInput
from paddleship.shipped.computing.files import sha256, tree_sha256

LIBRARY = Path(__file__).parents[1]
SHIPPED = ("__init__.py", "errors.py", "shipped")  # the parts of the library that go into every image
COMPUTING = Path("shipped", "computing")  # the one that computes answers; errors.py names exceptions, and no answer depends on a name


def library_sha256() -> str:
    """Hash of the modules of this library that compute the answers of a candidate."""
    return tree_sha256({file: digest for file, digest in _shipped().items() if Path(file).is_relative_to(COMPUTING)})


def server_sha256() -> str:
    """Hash of the other modules of this library that go into every image: they serve the answers."""
    return tree_sha256({file: digest for file, digest in _shipped().items() if not Path(file).is_relative_to(COMPUTING)})


def _shipped() -> dict[str, str]:
    return {str(path.relative_to(LIBRARY)): sha256(path) for name in SHIPPED for path in _files(LIBRARY / name)}


def code_sha256(code: Code) -> str:
    """Hash of the files that code.watch names. Raises BadInput if there are none."""
    watched = Path(code.watch)
    files = {str(path.relative_to(watched)): sha256(path) for path in _files(watched)}
    if not files:
        raise BadInput(f"code.watch {code.watch!r} names no file: set it to the file or folder of your model's code")
    return tree_sha256(files)


def is_below(code: Code, folder: Path) -> bool:
    """Whether the watched files are below this folder, also after symbolic links are resolved."""
    return Path(code.watch).resolve().is_relative_to(folder.resolve())


def copy(code: Code, target: Path, *, max_bytes: int) -> bool:
    """Copy the files that code.watch names to where an import finds them below `target`. False, and no copy, if they are larger."""
    watched, root = Path(code.watch).resolve(), Path(code.root).resolve()
    files = list(_files(watched))
    if sum(path.stat().st_size for path in files) > max_bytes:
        return False
    origin = root if watched.is_relative_to(root) else watched.parent
    for path in files:
        destination = target / path.relative_to(origin)
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, destination)
    return True


def _files(root: Path) -> Iterator[Path]:
    """The file, or every file below the folder except hidden and compiled files."""
    if root.is_file():
        yield root
    elif root.is_dir():
        for path in sorted(root.rglob("*")):
            parts = path.relative_to(root).parts
            if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in parts):
                yield path
