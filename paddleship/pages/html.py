"""Pages from templates: one file each, which asks for nothing from elsewhere."""

from __future__ import annotations

import base64
import io
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from paddleship.errors import RequestError
from paddleship.reports import figures, units
from paddleship.reports.finding import counted
from paddleship.shipped.computing.preprocess.pictures import MOST_PIXELS, decoded

_MOST_PICTURE_BYTES = 1_200_000  # of a page, so that it stays below 2 MB with what else it has
_THUMBNAIL, _WHITE = 96, (255, 255, 255)  # pixels of the longer side; what a transparent picture lies on


def render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


def with_code(text: str) -> Markup:
    """A text of ours, in which backticks mark commands."""
    parts = text.split("`")
    marked = [Markup("<code>{}</code>").format(part) if index % 2 else escape(part) for index, part in enumerate(parts)]
    return Markup().join(marked if len(parts) % 2 else [escape(text)])


def svg(text: str) -> Markup:
    """A chart of ours as a part of a page; its texts were escaped when it was drawn."""
    return Markup(f'<div class="wide">{text}</div>')  # noqa: S704


def address(picture: bytes) -> str:
    """An address that holds a PNG file itself."""
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def thumbnail(content: bytes) -> str | None:
    """The address of a small form of a picture; None if it cannot be decoded."""
    try:
        small = decoded(content, what="the picture", max_pixels=MOST_PIXELS, background=_WHITE)
    except RequestError:
        return None
    small.thumbnail((_THUMBNAIL, _THUMBNAIL))
    stream = io.BytesIO()
    small.save(stream, format="PNG")
    return address(stream.getvalue())


def pictures(folder: Path, names: list[str]) -> tuple[dict[str, str], list[str]]:
    """The PNG files below a folder as addresses that hold them, and the names of those that the page has no room for."""
    held, left_out, used = dict[str, str](), list[str](), 0
    for name in names:
        content = (folder / name).read_bytes() if (folder / name).is_file() else b""
        used += len(content) * 4 // 3
        if not content or used > _MOST_PICTURE_BYTES:
            left_out.append(name)
        else:
            held[name] = address(content)
    return held, left_out


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("paddleship.pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        "with_code": with_code,
        "counted": counted,
        "duration": units.duration,
        "percent": figures.percent,
        "share": figures.share,
        "size": units.size,
        "three": units.three,
        "times": units.times,
    }
    return environment
