"""The shared libraries that a process has mapped, of those that a runtime maps only if a program needs them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

_MAPS = Path("/proc/self/maps")
_FIELDS = 5  # before the path of a mapping


def of_this_process(patterns: Sequence[str], *, folders: Iterable[str] | None = None) -> list[str]:
    """The files that `patterns` name below the folders of the import path and that this process has mapped, relative to their folder.

    A file counts by its real path, so also where the folder of a package is a link. Empty outside Linux.
    """
    if not patterns or not _MAPS.exists():
        return []
    mapped = _mapped()
    below = [Path(folder) for folder in (sys.path if folders is None else folders) if folder]
    named = ((path, folder) for folder in below for pattern in patterns for path in folder.glob(pattern))
    return sorted({path.relative_to(folder).as_posix() for path, folder in named if str(path.resolve()) in mapped})


def _mapped() -> set[str]:
    lines = _MAPS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return {fields[_FIELDS] for line in lines if len(fields := line.split(maxsplit=_FIELDS)) > _FIELDS}
