"""Read the tensors of a `.pdiparams`, which holds them one after the other, sorted by name, without their names.

Before each tensor's bytes are a version (4 bytes), the levels of detail (8, none are expected), another version (4), and a
description (protobuf) of dtype and shape with its size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_HEAD = struct.Struct("<IQII")
# numbers of Paddle's VarType; numpy has no bfloat16, so its bytes are compared
_DTYPES = {0: "?", 1: "<i2", 2: "<i4", 3: "<i8", 4: "<f2", 5: "<f4", 6: "<f8", 20: "u1", 21: "i1", 22: "<u2", 23: "<c8", 24: "<c16"}
_LONGEST = 1_000  # bytes of a description that are read


def arrays(content: bytes, shapes: Mapping[str, Sequence[int]]) -> Iterator[tuple[str, Array]]:
    """The arrays of these names. Raises ValueError, which says what the file does, if they are others."""
    offset = 0
    for name in sorted(shapes):
        if offset + _HEAD.size > len(content):
            raise ValueError(f"ends before {name!r}, after {len(content):,} bytes")
        _, levels, _, size = _HEAD.unpack_from(content, offset)
        if offset + _HEAD.size + size > len(content):
            raise ValueError(f"ends within {name!r}, after {len(content):,} bytes")
        kind, shape = _description(content[offset + _HEAD.size : offset + _HEAD.size + min(size, _LONGEST)])
        if levels or kind not in _DTYPES or shape != list(shapes[name]):
            raise ValueError(f"holds another tensor than the program's {name!r} ({shape}, expected {list(shapes[name])})")
        dtype, count = np.dtype(_DTYPES[kind]), int(np.prod(shape, dtype=np.int64))
        offset += _HEAD.size + size
        if offset + count * dtype.itemsize > len(content):
            raise ValueError(f"ends within {name!r}, after {len(content):,} of {offset + count * dtype.itemsize:,} bytes and more")
        yield name, np.frombuffer(content, dtype, count, offset).reshape(shape)
        offset += count * dtype.itemsize
    if offset < len(content):
        raise ValueError(f"has {len(content) - offset:,} bytes after the last tensor of the program")


def _description(content: bytes) -> tuple[int, list[int]]:
    """Dtype and shape in a protobuf of integers: field 1, and field 2 repeated or packed."""
    kind, shape, offset = -1, [], 0
    while offset < len(content):
        key, offset = _number(content, offset)
        value, offset = _number(content, offset)
        if key == 0x08:
            kind = value
        elif key == 0x10:
            shape.append(value)
        else:  # 0x12, packed: the value was the number of bytes
            end = min(offset + value, len(content))
            while offset < end:
                value, offset = _number(content, offset)
                shape.append(value)
    return kind, shape


def _number(content: bytes, offset: int) -> tuple[int, int]:
    """A protobuf integer, and the position after it."""
    value = shift = 0
    while offset < len(content):
        byte = content[offset]
        value, shift, offset = value | (byte & 0x7F) << shift, shift + 7, offset + 1
        if byte < 0x80:
            break
    return value, offset
