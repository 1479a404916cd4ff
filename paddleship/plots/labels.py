"""Names in charts: in lines that fit, and beside their points without covering each other."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from paddleship.plots import fonts

_OFFSETS = [(side * 14, sign * height) for height in range(10, 150, 12) for side in (1, -1) for sign in (-1, 1)]  # in points, nearest first


def wrapped(text: str, columns: int) -> str:
    """A text in lines of so many columns, of which a Chinese character takes two; a longer word is broken."""
    lines, line = list[str](), ""
    for word in re.findall(r"\S+\s*|\s+", text):
        if line and _columns(word.rstrip()) <= columns < _columns(line + word.rstrip()):
            lines, line = [*lines, line.rstrip()], ""
        for letter in word:
            if _columns(line + letter.strip()) > columns:
                lines, line = [*lines, line.rstrip()], ""
            line += letter
    return "\n".join([*lines, line.rstrip()])


def place(axes: Any, labels: Sequence[Any]) -> None:
    """Give each label the nearest position beside its point, within the axes, that no label before it has and whose line crosses none.

    The labels have no part in the layout of the figure: long ones would leave no room for the axes.
    """
    figure, taken = axes.figure, list[tuple[Any, Any]]()  # boxes of texts, and the lines to their points
    for label in labels:
        label.set_in_layout(False)
    with fonts.without_glyph_warnings():
        figure.draw_without_rendering()

        def cost(offset: tuple[int, int]) -> tuple[bool, int, int, bool]:
            box = _move(label, offset)
            line = _leader(label, box)
            crossings = sum(line.intersects_bbox(text) + other.intersects_bbox(box) + line.intersects_path(other) for text, other in taken)
            return not _holds(figure.bbox, box), sum(box.overlaps(text) for text, _ in taken), crossings, not _holds(axes.bbox, box)

        middle = sum(map(_across, labels)) / max(len(labels), 1)
        for label in labels:
            side = -1 if _across(label) < middle else 1  # away from the other points, so that lines need not cross
            offsets = [(side * across, up) for across, up in _OFFSETS]
            free = next((offset for offset in offsets if not any(cost(offset))), None)
            box = _move(label, free or min(offsets, key=cost))
            taken.append((box, _leader(label, box)))


def _point(label: Any) -> Any:
    """The point of a label, in pixels."""
    return label.axes.transData.transform(label.xy)


def _across(label: Any) -> float:
    return float(_point(label)[0])


def _leader(label: Any, box: Any) -> Any:
    """The line from the point of a label to its text."""
    from matplotlib.path import Path

    return Path([_point(label), ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)])


def _columns(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _move(label: Any, offset: tuple[int, int]) -> Any:
    """Put a label at an offset from its point, and return the box of its text, without the arrow."""
    from matplotlib.text import Text

    across, up = offset
    label.set(position=offset, ha="left" if across > 0 else "right", va="bottom" if up > 0 else "top")
    return Text.get_window_extent(label)


def _holds(room: Any, box: Any) -> bool:
    return bool(room.x0 <= box.x0 and box.x1 <= room.x1 and room.y0 <= box.y0 and box.y1 <= room.y1)
