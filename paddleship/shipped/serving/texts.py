"""Refuse texts that take too long to normalise: Unicode sorts a run of combining marks in quadratic time."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from paddleship.errors import RequestError

_MOST_MARKS = 64  # in a row; Unicode's stream-safe form has up to 30
_SHORT = 1024  # characters; all of them marks take a millisecond
_LAST_MARK = 0x1F000  # no combining mark has a larger code point


def check(columns: Mapping[str, Any]) -> None:
    """Raises RequestError for a long text with a long run of combining marks."""
    for name, values in columns.items():
        for text in values if isinstance(values, list) else ():
            if isinstance(text, str) and len(text) > _SHORT and not text.isascii() and _run().search(text):
                raise RequestError(f"input {name!r} has more than {_MOST_MARKS} combining marks in a row: send text without such runs")


@functools.cache
def _run() -> re.Pattern[str]:
    marks = "".join(chr(code) for code in range(0x300, _LAST_MARK) if unicodedata.combining(chr(code)))
    return re.compile(f"[{marks}]{{{_MOST_MARKS + 1}}}")
