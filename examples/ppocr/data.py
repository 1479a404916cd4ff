"""Lines and pages of drawn text, as PP-OCRv4's recogniser and detector take them: float32 [3, height, width], from -1 to 1."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import get_data_path
from PIL import Image, ImageDraw, ImageFont

_FONT = Path(get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")
_CHARACTERS = "ABCDEFGHJKLMNPRSTUVWXYZ abcdefghijkmnopqrstuvwxyz 0123456789"


def read_lines(_raw: Path, rows: int, width: int, multiple_of: int) -> Iterator[dict[str, Any]]:
    """Pictures of one line of text, 48 high; their widths follow the text, up to `width`."""
    draw = random.Random(0)  # noqa: S311
    for _ in range(rows):
        text = _text(draw, draw.randint(2, 12))
        line = Image.new("L", (width, 48), 255)
        _write(line, text, (4, 4), size=32)
        right = np.flatnonzero((np.asarray(line) < 128).any(0)).max() + 5
        yield {"x": _values(line.crop((0, 0, min(width, -(-int(right) // multiple_of) * multiple_of), 48)))}


def read_pages(_raw: Path, rows: int, sizes: list[int]) -> Iterator[dict[str, Any]]:
    """Pictures with a few lines of text; height and width are drawn from `sizes`."""
    draw = random.Random(0)  # noqa: S311
    for _ in range(rows):
        page = Image.new("L", (draw.choice(sizes), draw.choice(sizes)), 255)
        for top in range(4, page.height - 24, 30):
            _write(page, _text(draw, draw.randint(2, page.width // 16)), (draw.randint(4, 12), top), size=18)
        yield {"x": _values(page)}


def _text(draw: random.Random, length: int) -> str:
    return "".join(draw.choice(_CHARACTERS) for _ in range(length)).strip() or "A"


def _write(picture: Image.Image, text: str, place: tuple[int, int], *, size: int) -> None:
    ImageDraw.Draw(picture).text(place, text, fill=0, font=ImageFont.truetype(str(_FONT), size))


def _values(picture: Image.Image) -> np.ndarray[Any, Any]:
    grey = (np.asarray(picture, np.float32) / 255 - 0.5) / 0.5
    return np.repeat(grey[None], 3, axis=0)
