"""A copy of a file with other content of the same form: other digits in a text, the last numbers in reverse order in other files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_NEXT_DIGIT = bytes.maketrans(b"0123456789", b"1234567899")
_LARGEST_BYTES = 64_000_000
_NUMBER_BYTES, _NUMBERS = 4, 4096


def can_change(file: Any, mode: str) -> bool:
    """Whether a file is opened for reading, and is small enough to copy."""
    if isinstance(file, int) or set(mode) & set("wax+"):
        return False
    path = Path(os.fsdecode(file))
    return path.is_file() and path.stat().st_size <= _LARGEST_BYTES


@contextmanager
def copy_of(file: Any, opener: Callable[..., Any]) -> Iterator[str]:
    """The path of the copy, which is removed at the end; whoever opened it keeps it open. `opener` is Python's own `open`."""
    with opener(file, "rb") as stream:
        content = stream.read()
    handle, path = tempfile.mkstemp(suffix=Path(os.fsdecode(file)).suffix)
    try:
        os.write(handle, altered(content))
        os.close(handle)
        yield path
    finally:
        Path(path).unlink()


def altered(content: bytes) -> bytes:
    try:
        content.decode()
    except UnicodeDecodeError:
        count = min(len(content) // 2 // _NUMBER_BYTES, _NUMBERS) * _NUMBER_BYTES
        head, numbers = content[: len(content) - count], content[len(content) - count :]
        return head + b"".join(numbers[at : at + _NUMBER_BYTES] for at in range(0, count, _NUMBER_BYTES)[::-1])
    return content.translate(_NEXT_DIGIT)
