"""The pinned packages of an image: those of the server, and those of the runtime, from its registration or the file that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from paddleship.errors import CandidateError
from paddleship.shipped.computing.runtimes.registration import Registration

_FOLDER = Path("docker/requirements")
SERVER = "server.txt"
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*")


def folder() -> Path:
    """The folder docker/requirements: of the current checkout, or of the checkout that this library was loaded from."""
    return _FOLDER if (_FOLDER / SERVER).is_file() else Path(__file__).parents[2] / _FOLDER


def dockerfile() -> Path:
    """The Dockerfile of the image."""
    return folder().parent / "serve.Dockerfile"


def of(runtime: Registration, pins_folder: Path | None = None) -> list[str]:
    """All pins of the runtime's image; `pins_folder` holds the files. Raises CandidateError."""
    return [*pins(file(runtime, pins_folder)), *runtime.pins]


def file(runtime: Registration, pins_folder: Path | None = None) -> Path:
    """The file that the runtime's registration names, or the server's file if the registration has its own pins."""
    name = runtime.requirements if isinstance(runtime.requirements, str) else SERVER
    return (pins_folder or folder()) / name


def pins(path: Path) -> list[str]:
    """All pins, `name==version`, including files that are included with `-r`. Raises CandidateError."""
    lines: list[str] = []
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CandidateError(
            f"{str(path)!r}, which lists the packages of an image, cannot be read ({error.strerror}): run in a checkout of paddleship, or "
            "install paddleship from one with `pip install -e`"
        ) from None
    for line in text.splitlines():
        fields = line.partition("#")[0].split()
        if fields[:1] == ["-r"]:
            lines += pins(path.parent / fields[1])
        elif fields:
            lines.append(fields[0])
    return lines


def names(pinned: Iterable[str]) -> list[str]:
    """The names of all pinned packages."""
    return [match[0] for line in pinned if (match := _NAME.match(line))]
