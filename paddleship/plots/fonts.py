"""Fonts for names in any script, among the installed ones."""

from __future__ import annotations

import logging
import unicodedata
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_OWN = "DejaVu Sans"  # comes with matplotlib
_STYLES = ("bold", "black", "heavy", "thin", "light", "italic", "oblique")
_INVISIBLE = ("Cc", "Cf")  # controls and marks of direction


def for_names(names: Sequence[str]) -> tuple[list[str], list[int]]:
    """The font families that draw these names, and the positions of the names that have characters of no installed font."""
    from matplotlib import font_manager

    families = [_OWN]
    letters = {letter for name in names for letter in name if unicodedata.category(letter) not in _INVISIBLE}
    missing = _missing(font_manager.findfont(_OWN), letters)
    for path in _installed() if missing else ():
        try:
            left = _missing(path, missing)
            if left != missing:
                font_manager.fontManager.addfont(path)  # the list that matplotlib keeps may be older
                logging.getLogger(font_manager.__name__).setLevel(logging.ERROR)  # another weight will do
                families.append(font_manager.get_font(path).family_name)
                missing = left
        except (OSError, RuntimeError):  # not a font with outlines
            continue
    return families, [index for index, name in enumerate(names) if missing & set(name)]


def _installed() -> list[str]:
    """The files of the system's fonts, upright regular ones first; without Apple's font that draws a placeholder for any character."""
    from matplotlib import font_manager

    paths = [path for path in font_manager.findSystemFonts() if "lastresort" not in path.lower()]
    return sorted(paths, key=lambda path: (any(word in Path(path).name.lower() for word in _STYLES), path))


def _missing(path: str, letters: Iterable[str]) -> set[str]:
    """The characters that a font does not have."""
    from matplotlib import font_manager

    font = font_manager.get_font(path)
    return {letter for letter in letters if not font.get_char_index(ord(letter))}


@contextmanager
def without_glyph_warnings() -> Iterator[None]:
    """Where no font has a character, a placeholder is drawn without a word."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from font")
        yield
