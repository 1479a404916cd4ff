"""Shared libraries without what only linkers and debuggers read: symbol tables and debug information, up to 90% of a file."""

from __future__ import annotations

import struct
from operator import itemgetter
from pathlib import Path

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little-endian
_HEADER, _PROGRAM = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ")
_SECTIONS = struct.Struct("<Q"), 0x28  # format and offset, in the header, of the offset of the section headers
_SECTION_COUNT = struct.Struct("<HH"), 0x3C  # their number, and the index of the one with their names


def loaded_bytes(path: Path) -> int:
    """The size of a file up to the last byte that a loader maps; the whole size if it is no library."""
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
        if len(head) < _HEADER.size or not head.startswith(_MAGIC):
            return path.stat().st_size
        programs, header, size, count = (int(field) for field in itemgetter(5, 8, 9, 10)(_HEADER.unpack(head)))
        file.seek(programs)
        entries = [_PROGRAM.unpack(file.read(size)[: _PROGRAM.size]) for _ in range(count)]
    return max(header, programs + size * count, *(int(offset) + int(in_file) for _, _, offset, _, _, in_file, _, _ in entries))


def reduce(path: Path) -> None:
    """Remove what follows the last byte that a loader maps, and the reference to the section headers, which lie there.

    Sections before that byte stay, as in libraries that `patchelf` has edited.
    """
    kept = loaded_bytes(path)
    if kept >= path.stat().st_size:
        return
    with path.open("r+b") as file:
        file.truncate(kept)
        for (form, offset), values in ((_SECTIONS, (0,)), (_SECTION_COUNT, (0, 0))):
            file.seek(offset)
            file.write(form.pack(*values))
