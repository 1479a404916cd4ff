"""Hashes of the code that a candidate depends on: the part of this library in the image, and the user's code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from paddleship.config.params import Code
from paddleship.errors import BadInput
from paddleship.shipped.common.files import sha256, tree_sha256

LIBRARY = Path(__file__).parents[1]
SHIPPED = ("__init__.py", "errors.py", "shipped")  # parts of the library that go into every image


def library_sha256() -> str:
    """Hash of the modules of this library that go into every image."""
    return tree_sha256({str(path.relative_to(LIBRARY)): sha256(path) for name in SHIPPED for path in _files(LIBRARY / name)})


def code_sha256(code: Code) -> str:
    """Hash of the files that code.watch names. Raises BadInput if there are none."""
    watched = Path(code.watch)
    files = {str(path.relative_to(watched)): sha256(path) for path in _files(watched)}
    if not files:
        raise BadInput(f"code.watch {code.watch!r} names no file: set it to the file or folder of your model's code")
    return tree_sha256(files)


def _files(place: Path) -> Iterator[Path]:
    """The file, or every file below the folder except hidden and compiled files."""
    if place.is_file():
        yield place
    elif place.is_dir():
        for path in sorted(place.rglob("*")):
            parts = path.relative_to(place).parts
            if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in parts):
                yield path
