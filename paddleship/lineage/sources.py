"""Which code a candidate depends on: the part of this library that ships in the image, and the user's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from paddleship.config.params import Code
from paddleship.errors import BadInput
from paddleship.shipped.common.files import sha256, tree_sha256

LIBRARY = Path(__file__).parents[1]
SHIPPED = ("__init__.py", "errors.py", "shipped")  # what of the library goes into every image


def library_sha256() -> str:
    """Hash over the modules of this library that go into every image."""
    return tree_sha256({str(path.relative_to(LIBRARY)): sha256(path) for name in SHIPPED for path in _files(LIBRARY / name)})


def code_sha256(code: Code) -> str:
    """Hash over the files that code.watch names, wherever they lie. Raises BadInput where there are none."""
    watched = Path(code.watch)
    files = {str(path.relative_to(watched)): sha256(path) for path in _files(watched)}
    if not files:
        raise BadInput(f"code.watch {code.watch!r} names no file: set it to the file or folder of your model's code")
    return tree_sha256(files)


def _files(place: Path) -> Iterator[Path]:
    """The file itself, or every file below the folder, without what is hidden or compiled."""
    if place.is_file():
        yield place
    elif place.is_dir():
        for path in sorted(place.rglob("*")):
            parts = path.relative_to(place).parts
            if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in parts):
                yield path
