"""Pictures in a folder, as rows: `data.reader: pictures`, and the pictures that a table names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paddleship.errors import DataError, RequestError
from paddleship.shipped.computing.preprocess import pictures

PICTURE, FILE, LABEL = "picture", "file", "label"  # columns of a row


def of_folder(raw: Path) -> Iterator[dict[str, Any]]:
    """The pictures in the subfolders of a folder, each with the name of its subfolder as label; or those in the folder itself, without.

    Files and folders whose names begin with a dot are left out. Raises DataError for any other file that is no picture.
    """
    if not raw.is_dir():
        raise DataError(f"data.raw {str(raw)!r} is no folder of pictures: name the folder, or choose another data.reader")
    every = sorted(path for path in raw.rglob("*") if not _hidden(path, raw))
    if links := [path for path in every if path.is_dir() and path.is_symlink()]:
        raise DataError(f"{str(links[0])!r} is a symbolic link to a folder, which is not followed: copy the folder, or name it in data.raw")
    files = [path for path in every if not path.is_dir()]
    flat = [path for path in files if path.parent == raw]
    if flat and len(flat) < len(files):
        below = next(path for path in files if path.parent != raw)
        raise DataError(
            f"data.raw {str(raw)!r} has the file {flat[0].name!r} beside the folder {below.relative_to(raw).parts[0]!r}, so that it has no "
            "label: put every picture into a folder named as its label, or name a table in data.kwargs: {labels: FILE.csv}"
        )
    for path in files:
        name = str(path.relative_to(raw))
        label = {} if flat else {LABEL: path.relative_to(raw).parts[0]}
        yield {PICTURE: read(raw, name, by=f"data.raw {str(raw)!r}"), FILE: name, **label}


def read(folder: Path, name: str, *, by: str) -> bytes:
    """The bytes of a picture below a folder; `by` is what names it. Raises DataError if it is no picture."""
    content = inside(folder, name, by=by).read_bytes()
    try:
        pictures.size(content, what=f"the file {name!r} of {by}")
    except RequestError as error:
        raise DataError(f"{error.reason}: correct it or remove it") from None
    return content


def inside(folder: Path, name: str, *, by: str) -> Path:
    """The path of a file below a folder. Raises DataError for a file that is missing or elsewhere, also by a symbolic link."""
    path = folder / str(name)
    if not path.is_file():
        raise DataError(f"{by} names the file {name!r}, and there is none in {str(folder)!r}: correct the name")
    if not path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"the file {name!r} of {by} is outside {str(folder)!r} ({path.resolve()}): copy it into the folder")
    return path


def _hidden(path: Path, raw: Path) -> bool:
    return any(part.startswith(".") for part in path.relative_to(raw).parts)
