"""Characters: text becomes the ids of its characters.

0 pads, 1 stands for a character outside the vocabulary. Text is normalised (paddleship.shipped.computing.preprocess.text), truncated to
`max_length` characters and padded to a multiple of `multiple_of`, so that there are few distinct shapes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from paddleship.errors import DataError, RequestError
from paddleship.shipped.computing.preprocess.measures import Array, Measure
from paddleship.shipped.computing.preprocess.registration import Content, InputEncoder, Kind, fitted, param
from paddleship.shipped.computing.preprocess.text import UnicodeForm, normalise, sources
from paddleship.shipped.computing.spec import BATCH, Dimension, TensorSpec

PAD, UNKNOWN = 0, 1
_FIRST = 2  # the id of the most frequent character


@dataclass(frozen=True, kw_only=True)
class Characters(InputEncoder):
    """Text to character ids; `vocabulary` has the characters in the order of their ids."""

    unicode_form: UnicodeForm | None = param("Unicode normal form applied to text; null: none", "NFKC")
    vocabulary: Sequence[str] = fitted(())
    max_length: int = param("text is cut to this length", 256, at_least=1)
    multiple_of: int = param("rows are padded to a multiple of this length", 16, at_least=1)
    vocabulary_size: int = param(
        "number of ids, those for padding and unknown characters included", 4096, at_least=_FIRST + 1, only_params=True
    )

    quick: ClassVar[bool] = True
    sized_by: ClassVar[tuple[str, ...]] = ("max_length", "multiple_of")

    @cached_property
    def request(self) -> TensorSpec:
        return TensorSpec(self.column, "str", (BATCH,))

    @property
    def content(self) -> Content | None:
        return Content.TEXT

    @property
    def longest_text(self) -> int:
        return self.max_length

    @cached_property
    def _ids(self) -> Array:
        """The id of each code point; the last one is that of all higher ones."""
        points = [ord(character) for character in self.vocabulary]
        ids = np.full(max(points, default=0) + 2, UNKNOWN, self.spec.dtype)
        ids[points] = np.arange(_FIRST, _FIRST + len(points))
        return ids

    def same(self, value: Any) -> Any:
        return normalise(value, self.unicode_form)

    def fit(self, values: Sequence[Any]) -> Self:
        return replace(self, vocabulary=vocabulary(values, size=self.vocabulary_size, unicode_form=self.unicode_form))

    def limited(self, values: Sequence[Any]) -> TensorSpec:  # noqa: ARG002 the vocabulary is the range
        spec, last = self.spec, len(self.vocabulary) + _FIRST - 1
        low, high = (PAD if spec.low is None else spec.low), (last if spec.high is None else spec.high)
        if isinstance(low, str) or isinstance(high, str) or low > PAD or high < last:
            raise DataError(
                f"model.inputs gives {spec.name!r} the range {low} … {high}, but preprocess makes ids from {PAD} to {last}: remove low and "
                "high, or set preprocess.vocabulary_size"
            )
        return replace(spec, low=float(low), high=float(high))

    def sizes(self, axis: int, values: Sequence[Any]) -> Dimension:  # noqa: ARG002 they follow from truncation and padding
        longest = -(-self.max_length // self.multiple_of) * self.multiple_of
        return Dimension(str(self.spec.shape[axis + 1]), self.multiple_of, longest, self.multiple_of)

    def encode(self, value: Any) -> Array:
        if not isinstance(value, str):
            raise RequestError(f"input {self.column!r} must be text (got {type(value).__name__})", "give a string")
        clean = normalise(value, self.unicode_form)[: self.max_length]
        if not clean:
            raise RequestError(f"input {self.column!r} is empty", "give at least one character")
        points = np.frombuffer(clean.encode("utf-32-le", "surrogatepass"), "<u4")
        return self._ids.take(points, mode="clip")

    def positions(self, value: Any) -> list[tuple[int, int]]:
        return sources(value, self.unicode_form, self.max_length)

    def collate(self, rows: Sequence[Array]) -> Array:
        longest = max(len(row) for row in rows)
        length = -(-longest // self.multiple_of) * self.multiple_of
        batch = np.full((len(rows), length), PAD, self.spec.dtype)
        for index, row in enumerate(rows):
            batch[index, : len(row)] = row
        return batch

    def is_full(self, row: Array) -> bool:
        return len(row) >= self.max_length

    def cut(self, value: Any) -> tuple[int, int] | None:
        length = len(normalise(value, self.unicode_form))
        return (length, self.max_length) if length > self.max_length else None

    def features(self) -> Iterator[tuple[str, Measure]]:
        yield from {
            f"{self.column}.length": _length,
            f"{self.column}.unknown_share": _unknown_share,
            f"{self.column}.rarity": _rarity,
        }.items()


def vocabulary(texts: Iterable[str], *, size: int, unicode_form: UnicodeForm | None) -> list[str]:
    """The most frequent characters of normalised text; `size` counts the ids for padding and unknown too; ties in code point order."""
    counts = Counter(character for text in texts for character in normalise(text, unicode_form))
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [character for character, _ in ranked[: size - _FIRST]]


def _length(ids: Array) -> float:
    """Characters that the model reads of a text."""
    return float(len(ids))


def _unknown_share(ids: Array) -> float:
    """The share of characters that the vocabulary does not have."""
    return float((ids == UNKNOWN).mean())


def _rarity(ids: Array) -> float:
    """Mean logarithm of the rank of the known characters in the vocabulary, which begins with the most frequent one."""
    known = ids[ids > UNKNOWN]
    return float(np.log2(known - UNKNOWN).mean()) if known.size else 0.0


KIND = Kind("characters", Characters, "text becomes the ids of its characters", short=True)
