"""Texts in Markdown: what a user, a library or a model wrote stays text."""

from __future__ import annotations

import re

_CODE = re.compile(r"(`+[^`]+`+)")


def text(value: str) -> str:
    """A text whose backticks mark code and in which nothing is HTML."""
    parts = _CODE.split(value)
    return "".join(part if index % 2 else part.replace("&", "&amp;").replace("<", "&lt;") for index, part in enumerate(parts))


def cell(value: str) -> str:
    """A text as a cell of a table: in one line, in which no bar begins another cell."""
    return " ".join(text(value).split("\n")).replace("|", r"\|")
