"""All specimens by name, and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.zoo.files import checkpoints, programs
from benchmarks.zoo.files.specimen import FileSpecimen

PART = "files"
SHORT = ("wrapped", "renamed")


def specimens() -> dict[str, FileSpecimen]:
    return {specimen.name: specimen for specimen in (*checkpoints.SPECIMENS, *programs.SPECIMENS)}


def split(names: Sequence[str], *, short: bool = False) -> tuple[list[str] | None, list[FileSpecimen]]:
    """The names that are no files, None if only files are asked for, and the files; all or the short selection without a name."""
    known = specimens()
    others = [name for name in names if name not in known and name != PART]
    every = [specimen for name, specimen in known.items() if not short or name in SHORT]
    if not names or PART in names:
        return (others or None if names else []), every
    return others or None, [known[name] for name in names if name in known]
