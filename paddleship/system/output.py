"""Standard output in a locale that lacks a character."""

from __future__ import annotations

import io
import sys


def print_any_character() -> None:
    """Print a character that the locale's encoding lacks as an escape, where Python would raise UnicodeEncodeError."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
