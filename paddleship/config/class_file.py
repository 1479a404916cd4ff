"""The names of classes in a text file: one in each line, in the order of their ids."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from paddleship.errors import ParamsError

_KEY = "data.classes.file"


def read(file: str) -> list[str]:
    """The names as they are written, spaces included. Raises ParamsError with the number of the line."""
    path = Path(file)
    try:
        state = path.stat()
    except OSError as error:
        raise ParamsError(f"{_KEY} {file!r} cannot be read ({error.strerror}): correct the path, or put the file there") from None
    return list(_read(path.absolute(), state.st_mtime_ns, state.st_size))


@cache
def _read(path: Path, *_state: int) -> tuple[str, ...]:
    try:
        text = path.read_bytes().decode("utf-8")
    except OSError as error:
        raise ParamsError(f"{_KEY} {str(path)!r} cannot be read ({error.strerror}): give a text file") from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ParamsError(f"line {line} of {_KEY} {str(path)!r} is not UTF-8 ({error.reason}): save the file as UTF-8") from None
    if text.startswith("\ufeff"):
        raise ParamsError(f"line 1 of {_KEY} {str(path)!r} begins with a byte order mark: save the file as UTF-8 without it")
    lines = text.replace("\r\n", "\n").split("\n")  # `splitlines` also splits at characters that may be classes
    return _checked(lines[:-1] if lines[-1] == "" else lines, path)


def _checked(names: list[str], path: Path) -> tuple[str, ...]:
    if not names:
        raise ParamsError(f"{_KEY} {str(path)!r} is empty: write the name of a class in each line")
    first: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if not name:
            raise ParamsError(f"line {number} of {_KEY} {str(path)!r} is empty: remove it, or write the name of a class in it")
        if (before := first.setdefault(name, number)) != number:
            raise ParamsError(f"line {number} of {_KEY} {str(path)!r} holds {name!r}, as line {before} does: rename or remove one")
    return tuple(names)
