"""A tokenizer as the content of a tokenizer.json describes it: texts, or pairs of texts, in; ids, types and offsets out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from paddleship.errors import DataError

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

_PADS = ("[PAD]", "<pad>", "<PAD>", "<|pad|>")  # names of the token that pads, where the file does not say which it is
CHARACTERS = 32  # that are read of a text for each token; what is longer is cut first, so that a long text costs no time


@dataclass(frozen=True)
class Loaded:
    """`content` is that of the file; whatever it says of truncation and padding, at most `max_length` tokens are read of a value."""

    content: str
    max_length: int
    special_tokens: bool

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Raises DataError."""
        made = parsed(self.content)
        made.no_padding()
        made.enable_truncation(self.max_length)
        return made

    def encode(self, texts: Sequence[str]) -> Encoding:
        return _encoded(self, tuple(text[: CHARACTERS * self.max_length] for text in texts))

    def length(self, texts: Sequence[str]) -> int:
        """The number of tokens without truncation."""
        return len(self._whole.encode(*_both(texts), add_special_tokens=self.special_tokens).ids)

    def cuts(self, texts: Sequence[str]) -> bool:
        """Whether something of these texts is not read."""
        return any(len(text) > CHARACTERS * self.max_length for text in texts) or bool(self.encode(texts).overflowing)

    @property
    def last_id(self) -> int:
        return max(self.tokenizer.get_vocab(with_added_tokens=True).values())

    @property
    def special_count(self) -> int:
        """The special tokens of a pair."""
        return self.tokenizer.num_special_tokens_to_add(True) if self.special_tokens else 0

    @property
    def unknown_id(self) -> int | None:
        """The id that stands for what the vocabulary does not have; None if it has everything."""
        model = self._described["model"]
        return model["unk_id"] if "unk_id" in model else self.tokenizer.token_to_id(model.get("unk_token") or "")

    @property
    def pads(self) -> tuple[int, int] | None:
        """The id and the type of padding; None if neither the file nor a known name says which."""
        if padding := self._described.get("padding"):
            return padding["pad_id"], padding["pad_type_id"]
        return next(((id_, 0) for name in _PADS if (id_ := self.tokenizer.token_to_id(name)) is not None), None)

    @cached_property
    def _whole(self) -> Tokenizer:
        made = parsed(self.content)
        made.no_padding()
        made.no_truncation()
        return made

    @cached_property
    def _described(self) -> dict[str, Any]:
        described: dict[str, Any] = json.loads(self.content)
        return described


def parsed(content: str) -> Tokenizer:
    """Raises DataError."""
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_str(content)
    except Exception as failure:  # the library raises no other type
        raise DataError(f"the tokenizer cannot be read ({failure}): give a tokenizer.json of the library tokenizers") from None


@lru_cache(maxsize=4)
def loaded(content: str, max_length: int, special_tokens: bool) -> Loaded:
    """One tokenizer for all inputs of a model that are made with it."""
    return Loaded(content, max_length, special_tokens)


@lru_cache(maxsize=256)  # ids, mask and types of a value are one encoding
def _encoded(made: Loaded, texts: tuple[str, ...]) -> Encoding:
    return made.tokenizer.encode(*_both(texts), add_special_tokens=made.special_tokens)


def _both(texts: Sequence[str]) -> tuple[str, str | None]:
    return texts[0], texts[1] if len(texts) > 1 else None
