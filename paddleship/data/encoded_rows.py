"""Encoded rows that need not fit into memory together: a picture is many times smaller as a file than as a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from paddleship.shipped.computing.preprocess import Example

MOST_BYTES = 2**30  # of encoded rows that are kept; others are encoded each time


class EncodedRows(Sequence[Example]):
    """Rows that are encoded when they are asked for, by their numbers; the first of them stay, up to `most_bytes`."""

    def __init__(self, encode: Callable[[int], Example], count: int, *, most_bytes: int = MOST_BYTES) -> None:
        self._encode, self._count, self._left = encode, count, most_bytes
        self._kept: dict[int, Example] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Example: ...

    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...

    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self._row(row) for row in range(*index.indices(self._count))]
        return self._row(range(self._count)[index])

    def _row(self, row: int) -> Example:
        if row in self._kept:
            return self._kept[row]
        example = self._encode(row)
        size = sum(array.nbytes for array in example.values())
        if size <= self._left:
            self._kept[row], self._left = example, self._left - size
        return example
