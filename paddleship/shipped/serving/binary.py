"""Tensors as the bytes of their values, row after row and little-endian: the binary form of the Open Inference Protocol.

HTTP sends them after its JSON, gRPC as raw contents. Each value of BYTES follows its length, which takes 4 bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from paddleship.errors import RequestError
from paddleship.shipped.serving import datatypes
from paddleship.shipped.serving.datatypes import DTYPES

_LENGTH = struct.Struct("<I")


class BinaryTensor(NamedTuple):
    """One input of a request; `name`, `datatype` and `shape` are what the client wrote. Values of BYTES are text, except those of files.

    More than `most_values` values of BYTES are refused before any is made. Numbers are a view of `content` where it is aligned.
    """

    name: object
    datatype: object
    shape: object
    content: memoryview
    most_values: int
    is_file: bool = False

    def decode(self) -> np.ndarray[Any, Any] | list[Any]:
        """The array in its shape, or the texts or files. Raises RequestError."""
        sizes = datatypes.check_sizes(self.name, self.shape)
        if self.datatype == "BYTES":
            values = self._values(datatypes.check_values(self.name, sizes))
            return values if self.is_file else texts(self.name, values)
        return self._numbers(sizes, np.dtype(DTYPES[str(self.datatype)]))

    def _numbers(self, sizes: list[int], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        needed = math.prod(sizes) * dtype.itemsize
        if len(self.content) != needed:
            raise RequestError(
                f"tensor {self.name!r} has {len(self.content)} bytes, its shape {sizes} of {self.datatype} needs {needed}: make them agree"
            )
        if dtype.kind == "b" and (np.frombuffer(self.content, np.uint8) > 1).any():
            raise RequestError(f"tensor {self.name!r} holds bytes other than 0 and 1: send one of them for each value of BOOL")
        array = datatypes.shaped(self.name, np.frombuffer(self.content, dtype), sizes)
        return array if array.flags.aligned else array.copy()

    def _values(self, count: int) -> list[bytes]:
        if count > self.most_values:
            raise RequestError(f"tensor {self.name!r} has {count} values, this server takes up to {self.most_values}: split the request")
        values, start, end = [], 0, len(self.content)
        for row in range(count):
            left = end - start - _LENGTH.size
            length = _LENGTH.unpack_from(self.content, start)[0] if left >= 0 else 0
            if length > left:
                raise RequestError(
                    f"value {row} of tensor {self.name!r} ends beyond its {end} bytes: "
                    "send each value after its length in 4 bytes, little-endian"
                )
            start += _LENGTH.size + length
            values.append(bytes(self.content[start - length : start]))
        if start != end:
            raise RequestError(f"tensor {self.name!r} has {end - start} bytes after its {count} values: make data and shape agree")
        return values


def texts(name: object, values: Sequence[bytes]) -> list[str]:
    """The texts of a tensor from their bytes. Raises RequestError."""
    made = list[str]()
    try:
        made.extend(map(bytes.decode, values))
    except UnicodeDecodeError as error:
        raise RequestError(f"value {len(made)} of tensor {name!r} is not UTF-8 ({error.reason} at {error.start}): send text") from None
    return made


def encode(values: np.ndarray[Any, Any] | Sequence[str]) -> bytes | memoryview:
    """The bytes of an array, or of a column of text."""
    if isinstance(values, np.ndarray):
        return np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    return b"".join(part for text in map(str.encode, values) for part in (_LENGTH.pack(len(text)), text))
