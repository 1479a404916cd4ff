"""Pictures: from the bytes of a file to upright pixels of 8 bits, within limits that are checked before anything is decoded."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from paddleship.errors import RequestError

if TYPE_CHECKING:
    from PIL import Image as Pillow

FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF")
MOST_PIXELS = 178_956_970  # beyond this, Pillow refuses to open a file
_SEND = f"give the bytes of a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} file"
_SCAN, _MOST_SCANS = b"\xff\xda", 100  # a progressive JPEG has 10 or so, and each goes over all pixels
_ORIENTATION = 0x0112  # a tag of EXIF
_DEEP = "I;16"  # Pillow's mode of gray pictures of 16 bits


def size(content: bytes, *, what: str, max_pixels: int = MOST_PIXELS) -> tuple[int, int]:
    """Width and height as the header says, before rotation. Raises RequestError; `what` names the picture in the message."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _opened(content, what, max_pixels).size


def decoded(content: bytes, *, what: str, max_pixels: int, background: Sequence[int]) -> Pillow.Image:
    """The picture in mode RGB, or L if it has no colour: rotated as its EXIF says, on the background where it is transparent.

    Of an animation, this is the first frame. Colour profiles are not applied. Of 16 bits, the upper 8 are read. Raises RequestError.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what is refused here, or can be read all the same
        opened = _opened(content, what, max_pixels)
        try:
            opened.load()
            return _opaque(_of_8_bits(_upright(opened)), background)
        except MemoryError:
            raise
        except Exception as failure:  # Pillow's decoders raise errors of many types
            reason = " ".join(str(failure).split())[:80] or type(failure).__name__
            raise RequestError(f"{what} is a damaged {opened.format} picture ({reason})", "give the whole file") from None


def _opened(content: bytes, what: str, max_pixels: int) -> Pillow.Image:
    """The picture of which only the header was read."""
    from PIL import Image, WebPImagePlugin  # noqa: F401 the plugin registers itself

    if not content:
        raise RequestError(f"{what} is empty", _SEND)
    try:
        opened = Image.open(io.BytesIO(content), formats=FORMATS)
    except Image.DecompressionBombError:
        raise RequestError(f"{what} has more than {min(max_pixels, MOST_PIXELS):,} pixels", "make it smaller first") from None
    except MemoryError:
        raise
    except Exception:  # also of a file that only begins as a picture does
        raise RequestError(f"{what} is not a picture, or its beginning is damaged (it begins with {content[:8]!r})", _SEND) from None
    if (scans := content.count(_SCAN)) > _MOST_SCANS and opened.format == "JPEG":
        raise RequestError(f"{what} is a JPEG of {scans:,} scans, and the limit is {_MOST_SCANS}", "save the picture again")
    width, height = opened.size
    if width * height > max_pixels:
        raise RequestError(f"{what} has {width:,} × {height:,} pixels, and the limit is {max_pixels:,}", "make it smaller first")
    return opened


def _upright(picture: Pillow.Image) -> Pillow.Image:
    """The picture without the rotation or reflection that its EXIF asks for; unreadable EXIF asks for none."""
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    turn = None
    with suppress(Exception):  # of damaged EXIF, as of damaged pictures
        turn = turns.get(picture.getexif().get(_ORIENTATION, 1))
    return picture if turn is None else picture.transpose(turn)


def _of_8_bits(picture: Pillow.Image) -> Pillow.Image:
    from PIL import Image

    if not picture.mode.startswith(_DEEP):
        return picture
    values = np.asarray(picture, np.uint16)
    gray = Image.fromarray((values >> 8).astype(np.uint8))
    clear = picture.info.get("transparency")
    if clear is None:
        return gray
    return Image.merge("LA", (gray, Image.fromarray(np.where(values == clear, 0, 255).astype(np.uint8))))


def _opaque(picture: Pillow.Image, background: Sequence[int]) -> Pillow.Image:
    from PIL import Image

    if picture.has_transparency_data:
        layer = picture.convert("RGBA")
        canvas = Image.new("RGB", layer.size, tuple(background))
        canvas.paste(layer, mask=layer.getchannel("A"))
        return canvas
    return picture.convert("L" if picture.mode in ("1", "L") else "RGB")
