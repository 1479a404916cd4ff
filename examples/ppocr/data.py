"""Lines and pages of drawn text, as PNG, for PP-OCRv4's recogniser and detector."""

import io
import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matplotlib import get_data_path
from PIL import Image, ImageDraw, ImageFont

_FONT = Path(get_data_path(), "fonts", "ttf", "DejaVuSans.ttf")


def read_lines(_raw: Path, rows: int) -> Iterator[dict[str, Any]]:
    """Pictures of one line, and their text; their widths follow the text."""
    draw = random.Random(0)  # noqa: S311
    for _ in range(rows):
        text, font = _text(draw, draw.randint(2, 12)), ImageFont.truetype(str(_FONT), 32)
        line = Image.new("L", (round(font.getlength(text)) + 16, 48), 255)
        ImageDraw.Draw(line).text((8, 5), text, fill=0, font=font)
        yield {"picture": _png(line), "text": text}


def read_pages(_raw: Path, rows: int, sizes: list[int]) -> Iterator[dict[str, Any]]:
    """Pictures with a few lines; height and width are drawn from `sizes`."""
    draw, font = random.Random(0), ImageFont.truetype(str(_FONT), 18)  # noqa: S311
    for _ in range(rows):
        page = Image.new("L", (draw.choice(sizes), draw.choice(sizes)), 255)
        for top in range(4, page.height - 24, 30):
            text = _text(draw, draw.randint(2, page.width // 16))
            ImageDraw.Draw(page).text((draw.randint(4, 12), top), text, fill=0, font=font)
        yield {"picture": _png(page)}


def _text(draw: random.Random, length: int) -> str:
    return "".join(draw.choice(string.ascii_letters + string.digits) for _ in range(length))


def _png(picture: Image.Image) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()
