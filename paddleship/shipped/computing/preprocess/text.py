"""Text in one form: what makes two texts equal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Literal

UnicodeForm = Literal["NFC", "NFD", "NFKC", "NFKD"]
_WIDTH_FORMS = re.compile("[\uff00-\uffef]")  # the punctuation of most Chinese and Japanese text is among them
_CONTEXT = 4  # characters before one that may be composed with it; Unicode composes at most three


def normalise(text: str, unicode_form: UnicodeForm | None) -> str:
    """The text in a Unicode normal form (None: unchanged), with single spaces and no white space at the ends."""
    return " ".join((_in_form(text, unicode_form) if unicode_form else text).split())


def _in_form(text: str, form: UnicodeForm) -> str:
    """The normal form; Unicode finds it much faster where characters that are changed by themselves have been."""
    return unicodedata.normalize(form, _WIDTH_FORMS.sub(lambda found: unicodedata.normalize(form, found[0]), text))


def sources(text: str, unicode_form: UnicodeForm | None, most: int) -> list[tuple[int, int]]:
    """The part of the text, from start to end, that each of the first `most` characters of `normalise` was made from.

    Characters that Unicode composes or reorders together have one part, and so does a run of white space.
    """
    wanted = normalise(text, unicode_form)[:most]
    if text.startswith(wanted):
        return [(index, index + 1) for index in range(len(wanted))]
    characters: list[str] = []
    parts: list[tuple[int, int]] = []
    gap: tuple[int, int] | None = None
    for start, end in _segments(text, unicode_form):
        for character in unicodedata.normalize(unicode_form, text[start:end]) if unicode_form else text[start:end]:
            if character.isspace():
                gap = (gap[0] if gap else start, end)
                continue
            if gap and parts:
                characters.append(" ")
                parts.append(gap)
            gap = None
            characters.append(character)
            parts.append((start, end))
        if len(parts) >= most:
            break
    agrees = "".join(characters)[:most] == wanted
    return parts[:most] if agrees else [(0, len(text))] * len(wanted)


def _segments(text: str, unicode_form: UnicodeForm | None) -> Iterator[tuple[int, int]]:
    """Start and end of the shortest parts of a text whose normal forms, joined, are that of the text."""
    start = 0
    for index in range(1, len(text)):
        if unicode_form is None or _starts(text[index], text[max(start, index - _CONTEXT) : index], unicode_form):
            yield start, index
            start = index
    if text:
        yield start, len(text)


def _starts(character: str, before: str, unicode_form: UnicodeForm) -> bool:
    """Whether the normal form of a character does not depend on those before it."""
    if character.isascii():
        return True
    together, first, second = (unicodedata.normalize(unicode_form, part) for part in (before + character, before, character))
    return not unicodedata.combining(second[0]) and together == first + second
