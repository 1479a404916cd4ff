"""Text in one form: what makes two texts equal."""

from __future__ import annotations

import unicodedata
from typing import Literal

UnicodeForm = Literal["NFC", "NFD", "NFKC", "NFKD"]


def normalise(text: str, unicode_form: UnicodeForm | None) -> str:
    """The text in a Unicode normal form (None: unchanged), with single spaces and no white space at the ends."""
    return " ".join((unicodedata.normalize(unicode_form, text) if unicode_form else text).split())
