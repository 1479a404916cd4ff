"""Tokens: text becomes the ids of its tokens, with the library tokenizers; beside them a mask and the types of the tokens.

The tokenizer is that of a tokenizer.json, or one is trained on the training rows. Its file is part of the config, so it is sealed with the
data and travels with a candidate. Rows are padded with the tokenizer's own id for padding.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np

from paddleship.errors import DataError, RequestError
from paddleship.shipped.computing.preprocess import token_training, tokenizer_file
from paddleship.shipped.computing.preprocess.measures import Array, Measure
from paddleship.shipped.computing.preprocess.registration import Content, InputEncoder, Kind, fitted, param
from paddleship.shipped.computing.preprocess.text import UnicodeForm
from paddleship.shipped.computing.preprocess.tokenizer_file import Loaded
from paddleship.shipped.computing.spec import BATCH, Dimension, TensorSpec

_PAIR = ("text", "pair")  # keys of a pair that is an object


@dataclass(frozen=True, kw_only=True)
class Tokens(InputEncoder):
    """Text to token ids; `definition` is the content of the tokenizer.json."""

    tokenizer: str | None = param(
        "path of a tokenizer.json, below code.watch or data.raw; null: one is trained on the training rows", None, names="file"
    )
    max_length: int = param("number of tokens, special ones included, at which a text or pair is truncated", 128, at_least=1)
    multiple_of: int = param("rows are padded to a multiple of this length, which divides max_length", 8, at_least=1)
    special_tokens: bool = param("add the tokenizer's special tokens, such as [CLS] and [SEP]", True)
    pair: bool = param('a value is two texts: a JSON list of both, or {"text": …, "pair": …}', False)
    pad_token: str | None = param("token that pads; null: the one that the tokenizer.json names, otherwise [PAD] or <pad>", None)
    mask: str | None = param("input of the model that is 1 for each token and 0 for padding; null: none", None, names="input")
    types: str | None = param("input of the model that is 0 for the first text and 1 for the second; null: none", None, names="input")
    model: token_training.Model = param("without tokenizer: how it is trained", "bpe", only_params=True)
    vocabulary_size: int = param("without tokenizer: number of tokens", 8000, at_least=32, only_params=True)
    unicode_form: UnicodeForm | None = param("without tokenizer: Unicode normal form applied to text; null: none", "NFKC", only_params=True)
    lowercase: bool = param("without tokenizer: apply lower case to text", False, only_params=True)
    definition: str = fitted("")
    gives: Literal["ids", "mask", "types"] = field(default="ids", metadata={"stored": False})

    quick: ClassVar[bool] = True
    sized_by: ClassVar[tuple[str, ...]] = ("max_length", "multiple_of")

    def __post_init__(self) -> None:
        if self.spec.numpy_dtype.kind not in "iu" or len(self.spec.shape) != 2:
            self._refuse(f"is {self.spec.dtype} {list(self.spec.shape)}", f"declare int64 [{BATCH}, length]")
        if isinstance(self.spec.shape[1], int) and self.spec.shape[1] != self.max_length:
            self._refuse(f"has {self.spec.shape[1]} places, and max_length is {self.max_length}", "set max_length, or name the dimension")
        if self.max_length % self.multiple_of:
            self._refuse(f"has max_length {self.max_length} and multiple_of {self.multiple_of}", "make max_length a multiple of it")

    @cached_property
    def request(self) -> TensorSpec:
        return TensorSpec(self.column, "str", (BATCH,))

    @property
    def content(self) -> Content | None:
        return Content.TEXT if self.gives == "ids" else None

    @property
    def longest_text(self) -> int:
        return self.max_length * tokenizer_file.CHARACTERS * (1 + self.pair)

    def as_text(self, value: Any) -> Any:
        if not self.pair or not isinstance(value, list | tuple | dict):
            return value
        return json.dumps(_two(value) or value, ensure_ascii=False, default=str)

    def accept(self, value: Any) -> Any:
        self._not_empty(value)
        return value

    def same(self, value: Any) -> Any:
        clean = [" ".join(self._normalised(text).split()) for text in self._texts(value)]
        return json.dumps(clean, ensure_ascii=False) if self.pair else clean[0]

    def fit(self, values: Sequence[Any]) -> Self:
        if self.tokenizer is None:
            texts = tuple(text for value in values for text in self._texts(value))
            return replace(self, definition=token_training.train(texts, self._recipe))
        return replace(self, definition=self._read())

    @property
    def learns(self) -> bool:
        return self.tokenizer is None

    def changed_file(self) -> str | None:
        return self.tokenizer if self.tokenizer and Path(self.tokenizer).is_file() and self._read() != self.definition else None

    def limited(self, values: Sequence[Any]) -> TensorSpec:  # noqa: ARG002 the vocabulary is the range
        low, high, pad = self._limits
        for name, declared, made in (("low", self.spec.low, low), ("high", self.spec.high, high), ("pad", self.spec.pad or None, pad)):
            if declared not in (None, made):
                self._refuse(f"has {name} {declared}, and the tokenizer gives {made}", f"remove {name}")
        return replace(self.spec, low=float(low), high=float(high), pad=pad)

    def sizes(self, axis: int, values: Sequence[Any]) -> Dimension:  # noqa: ARG002 they follow from truncation and padding
        return Dimension(str(self.spec.shape[axis + 1]), self.multiple_of, self.max_length, self.multiple_of)

    def encode(self, value: Any) -> Array:
        encoding = self._loaded.encode(self._not_empty(value))
        row = {"ids": encoding.ids, "mask": encoding.attention_mask, "types": encoding.type_ids}[self.gives]
        if not row:
            raise RequestError(f"input {self.column!r} has no token", "give text with a character of the tokenizer's vocabulary")
        return np.asarray(row, self.spec.dtype)

    def positions(self, value: Any) -> list[tuple[int, int]]:
        if self.pair or self.special_tokens:
            self._refuse("has positions that are no part of one text", "set special_tokens: false and pair: false")
        return list(self._loaded.encode(self._not_empty(value)).offsets)

    def collate(self, rows: Sequence[Array]) -> Array:
        batch, size = super().collate(rows), self.spec.shape[1]
        length = size if isinstance(size, int) else -(-batch.shape[1] // self.multiple_of) * self.multiple_of
        return np.pad(batch, ((0, 0), (0, length - batch.shape[1])), constant_values=self.spec.pad)

    def cut(self, value: Any) -> tuple[int, int] | None:
        texts = self._not_empty(value)
        return (self._loaded.length(texts), len(self._loaded.encode(texts).ids)) if self._loaded.cuts(texts) else None

    def features(self) -> Iterator[tuple[str, Measure]]:
        if self.gives != "ids":
            return
        unknown = self._loaded.unknown_id
        yield f"{self.column}.tokens", lambda ids: float(len(ids))
        if unknown is not None:
            yield f"{self.column}.unknown_share", lambda ids: float((ids == unknown).mean())
        yield f"{self.column}.log_id", lambda ids: float(np.log2(1.0 + ids).mean())  # ids follow frequency in most vocabularies

    def malformed(self, value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ARG002 any value would do
        if self.pair:
            yield "a text in place of a pair", "a cat"

    @cached_property
    def _loaded(self) -> Loaded:
        made = tokenizer_file.loaded(self.definition, self.max_length, self.special_tokens)
        if (added := made.special_count) >= self.max_length:
            self._refuse(f"has max_length {self.max_length}, and the tokenizer adds {added} special tokens", "raise max_length")
        return made

    @property
    def _limits(self) -> tuple[int, int, int]:
        """Lowest and highest value of a token, and the value of padding."""
        if self.gives == "mask":
            return 1, 1, 0
        pads = self._loaded.pads
        if self.pad_token is not None:
            identity = self._loaded.tokenizer.token_to_id(self.pad_token)
            pads = None if identity is None else (identity, 0)
        if pads is None:
            named = f"no token {self.pad_token!r}" if self.pad_token else "no token that pads"
            raise self._refused(f"has a tokenizer with {named}", "name one of its tokens in pad_token")
        return (0, self._loaded.last_id, pads[0]) if self.gives == "ids" else (0, int(self.pair), pads[1])

    @property
    def _recipe(self) -> token_training.Recipe:
        return token_training.Recipe(self.model, self.vocabulary_size, self.unicode_form, self.lowercase)

    @cached_property
    def _normalizer(self) -> Any:
        if self.definition:
            return self._loaded.tokenizer.normalizer
        return (token_training.untrained(self._recipe) if self.tokenizer is None else tokenizer_file.parsed(self._read())).normalizer

    def _normalised(self, text: str) -> str:
        """The text as the tokenizer reads it; white space alone is no text, whatever the tokenizer makes of it."""
        return str(self._normalizer.normalize_str(text)) if self._normalizer is not None and text.strip() else text

    def _read(self) -> str:
        """The content of the tokenizer.json. Raises DataError."""
        try:
            return Path(str(self.tokenizer)).read_bytes().decode()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise self._refused(f"is made with {self.tokenizer!r}, which cannot be read ({reason})", "correct tokenizer") from None

    def _texts(self, value: Any) -> list[str]:
        """The one or two texts of a value. Raises RequestError."""
        if not isinstance(value, str):
            raise RequestError(f"input {self.column!r} must be text (got {type(value).__name__})", "give a string")
        if not self.pair:
            return [value]
        try:
            texts = _two(json.loads(value))
        except (ValueError, RecursionError):
            texts = None
        if texts is None:
            advice = 'give the text ["first", "second"], or {"text": "first", "pair": "second"}'
            raise RequestError(f"input {self.column!r} must be two texts in JSON (got {value[:40]!r})", advice)
        return texts

    def _not_empty(self, value: Any) -> list[str]:
        texts = self._texts(value)
        if not all(text.strip() for text in texts):
            raise RequestError(f"input {self.column!r} is empty", "give at least one character")
        return texts

    def _refuse(self, reason: str, advice: str) -> None:
        raise self._refused(reason, advice)

    def _refused(self, reason: str, advice: str) -> DataError:
        return DataError(f"the input {self.spec.name!r} of kind tokens {reason}: {advice}")


def _two(value: Any) -> list[str] | None:
    """The two texts of a list or of an object; None if it holds anything else."""
    if isinstance(value, Mapping):
        value = [value.get(key) for key in _PAIR] if set(value) == {*_PAIR} else None
    two = isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(text, str) for text in value)
    return [*value] if two else None


KIND = Kind("tokens", Tokens, "text becomes the ids of its tokens, with a mask and types", requirements=("tokenizers==0.23.3",))
