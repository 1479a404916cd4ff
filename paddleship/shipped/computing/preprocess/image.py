"""Pictures: the bytes of an encoded picture become the pixels that the model reads, resized, cropped and normalised.

The shape of the input says whether channels come first or last, and which sizes are fixed. Every pixel value of 8 bits is looked up in a
table of normalised values, so that the row is the same in every process.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from paddleship.errors import DataError, RequestError
from paddleship.shipped.computing.preprocess import pictures
from paddleship.shipped.computing.preprocess.measures import Array, Measure
from paddleship.shipped.computing.preprocess.registration import InputEncoder, Kind, ValueMeasure, param
from paddleship.shipped.computing.spec import BATCH, Dimension, TensorSpec

if TYPE_CHECKING:
    from PIL import Image as Pillow

_LEVELS = 256
_MOST_RESIZED = 50_000_000  # pixels of a picture while it is resized
_DTYPES = ("float16", "float32", "float64", "uint8")
_FOLLOWS = ("height", "longer")  # ways to resize in which a dynamic size follows from the picture and the params


@dataclass(frozen=True, kw_only=True)
class Picture(InputEncoder):
    """The bytes of a JPEG, PNG, WebP, BMP or GIF file to an input [batch, channels, height, width], [batch, height, width, channels], or
    [batch, height, width] of gray."""

    pictorial: ClassVar[bool] = True

    resize: Literal["shorter", "exact", "fit", "height", "longer", "none"] = param(
        "how the picture gets the input's size; shorter: its shorter side becomes resize_to, then the centre is cropped; exact: width and "
        "height each; fit: all of it, padded with background; height: the width follows, up to max_side; longer: smaller if a side is "
        "above max_side; none: the centre is cropped",
        "shorter",
    )
    resize_to: int | None = param("shorter: length of the shorter side; null: that of the input", None, at_least=1)
    max_side: int = param("height and longer: largest length of a side that the input leaves open", 960, at_least=1)
    min_side: int = param("height: width up to which shorter lines are padded, as the recognisers of PP-OCR expect 320", 1, at_least=1)
    multiple_of: int = param("height and longer: sides that the input leaves open are multiples of this length", 32, at_least=1)
    interpolation: Literal["nearest", "bilinear", "bicubic", "lanczos", "box", "hamming"] = param("filter for resizing", "bilinear")
    color: Literal["rgb", "bgr", "gray"] = param("order of the channels, or gray for one", "rgb")
    scale: float | None = param("factor of pixel values of 0 to 255, before mean; null: 1/255, and 1 for uint8", None)
    mean: float | Sequence[float] = param("subtracted from scaled values; a number, or one for each channel", 0.0)
    std: float | Sequence[float] = param("divides what is left; a number, or one for each channel", 1.0)
    background: int | Sequence[int] = param("red, green and blue behind what is transparent and beside what fits, 0 to 255", 255)
    max_bytes: int = param("largest file", 10 * 2**20, at_least=1)
    max_pixels: int = param(
        "most pixels of a picture before it is resized; decoding takes up to 16 bytes of memory for each", 25_000_000, at_least=1
    )

    def __post_init__(self) -> None:
        self._require(self.spec.dtype in _DTYPES, f"has the dtype {self.spec.dtype}", f"declare one of {', '.join(_DTYPES)}")
        _ = self._channel_axis, self._table
        height, width = self._wanted
        dynamic = [size for size in (height, width) if size is None]
        if self.resize in ("shorter", "exact", "fit") and dynamic:
            self._require(
                False, f"leaves a side open, and resize: {self.resize} needs both", "declare sizes, or set resize to height or longer"
            )
        if self.resize == "height":
            self._require(height is not None, "leaves the height open, and resize: height needs it", "declare it, or set resize: longer")
        if self.resize == "longer":
            self._require(
                len(dynamic) == 2, "fixes a side, and resize: longer needs both open", "name both dimensions, such as height, width"
            )
        fits = self.resize != "height" or self.min_side <= self.max_side
        self._require(fits, f"has min_side {self.min_side} above max_side {self.max_side}", "lower min_side, or raise max_side")
        if self.resize_to is not None and height and width:
            fits = self.resize == "shorter" and self.resize_to >= max(height, width)
            self._require(fits, f"is {height} × {width}, and resize_to is {self.resize_to}", "set resize: shorter and a larger resize_to")
        self._require(
            len(self._background) == 3 and all(0 <= value < _LEVELS for value in self._background),
            f"has the background {self.background}",
            "set a number from 0 to 255, or one for each of red, green and blue",
        )
        self._require(
            self.max_pixels <= pictures.MOST_PIXELS, f"has max_pixels {self.max_pixels:,}", f"set {pictures.MOST_PIXELS:,} at most"
        )

    @cached_property
    def request(self) -> TensorSpec:
        return TensorSpec(self.column, "bytes", (BATCH,))

    @property
    def largest_bytes(self) -> int:
        return self.max_bytes

    def accept(self, value: Any) -> Any:
        self.same(value)
        return bytes(value)

    def same(self, value: Any) -> Any:
        """A hash of the pixels, so that a copy with other metadata, or in another lossless format, is a repeat and is in no other part."""
        key = hashlib.sha256(self._bytes(value)).digest()
        if key not in self._hashes:
            picture = self._decoded(value).convert(self._mode)
            self._hashes[key] = hashlib.sha256(f"{picture.size}".encode() + picture.tobytes()).hexdigest()
        return self._hashes[key]

    def limited(self, values: Sequence[Any]) -> TensorSpec:  # noqa: ARG002 the table is the range
        padded = [self.spec.pad] if self.resize == "height" else []
        lowest, highest = (float(function([*self._table.ravel().tolist(), *padded])) for function in (min, max))
        spec = self.spec
        low, high = (lowest if spec.low is None else spec.low), (highest if spec.high is None else spec.high)
        if isinstance(low, str) or isinstance(high, str) or low > lowest or high < highest:
            self._require(
                False, f"has the range {low} … {high}, and scale, mean and std give {lowest:g} to {highest:g}", "remove low and high"
            )
        return replace(spec, low=lowest, high=highest)

    def sizes(self, axis: int, values: Sequence[Any]) -> Dimension:
        if self.resize not in _FOLLOWS:
            return super().sizes(axis, values)
        least = self._rounded(self.min_side if self.resize == "height" else 1)
        return Dimension(str(self.spec.shape[axis + 1]), least, self._longest, self.multiple_of)

    def encode(self, value: Any) -> Array:
        return self._encoded(self._decoded(value).convert(self._mode))

    def changed(self, value: Any, change: Callable[[Any], Any]) -> Array:
        return self._encoded(change(self._decoded(value).convert(self._mode)).convert(self._mode))

    def _encoded(self, picture: Pillow.Image) -> Array:
        pixels = np.asarray(self._sized(picture))
        pixels = pixels[..., None] if pixels.ndim == 2 else pixels[..., ::-1] if self.color == "bgr" else pixels
        channels = [table[pixels[..., index]] for index, table in enumerate(self._table)]
        row = channels[0] if self._channel_axis is None else np.stack(channels, self._channel_axis)
        return self._padded(row, [size or 0 for size in self._wanted]) if self.resize == "height" else row

    def check(self, row: Array, sizes: Mapping[str, int], rules: Mapping[str, Dimension]) -> None:  # noqa: ARG002 sizes are enough
        for name in self.spec.shape[1:] if self.resize == "none" else ():
            if isinstance(name, str) and (rule := rules.get(name)) and not rule.allows(sizes[name]):
                reason = f"input {self.column!r} has size {sizes[name]} in the dimension {name!r}, the model takes {rule}"
                raise RequestError(reason, "give such a picture")

    def collate(self, rows: Sequence[Array]) -> Array:
        """Stack rows; open sides are padded at their end to the largest of the rows, and to a multiple of `multiple_of`."""
        if self.resize != "height":
            return super().collate(rows)
        widest = max(row.shape[self._side_axes[1]] for row in rows)
        width = self._rounded(max(widest, self.min_side)) if self._wanted[1] is None else widest
        return np.stack([self._padded(row, (0, width)) for row in rows])

    def value_features(self) -> Iterator[tuple[str, ValueMeasure]]:
        yield f"{self.column}.width", lambda value: float(pictures.size(value, what=self.column)[0])
        yield f"{self.column}.height", lambda value: float(pictures.size(value, what=self.column)[1])

    def features(self) -> Iterator[tuple[str, Measure]]:
        yield f"{self.column}.brightness", lambda row: float(self._levels(row).mean())
        yield f"{self.column}.contrast", lambda row: float(self._levels(row).std())

    def malformed(self, value: Any) -> Iterator[tuple[str, Any]]:
        yield "the first half of a picture", value[: len(value) // 2]
        yield "text in place of a picture", b"a cat"
        yield "a picture with too many pixels", _bomb()
        yield "no bytes", b""

    @property
    def _mode(self) -> str:
        """Pillow's mode of a picture that the model reads."""
        return "L" if self.color == "gray" else "RGB"

    @cached_property
    def _hashes(self) -> dict[bytes, str]:
        """What `same` found, by hash of the file: prepare asks several times."""
        return {}

    @cached_property
    def _channel_axis(self) -> int | None:
        """The axis of the channels in a row; None if it has none."""
        sizes, count = self.spec.shape[1:], 1 if self.color == "gray" else 3
        if len(sizes) == 2 and count == 1:
            return None
        axes = [axis for axis in (0, 2) if len(sizes) == 3 and sizes[axis] == count]
        if len(axes) == 1:
            return axes[0]
        reason = f"has the shape {list(self.spec.shape)}, " + (
            f"and both its first and its last size may be the {count} channels"
            if axes
            else f"without an axis of {count} for color: {self.color}"
        )
        raise self._refused(reason, f"declare [{BATCH}, {count}, height, width] or [{BATCH}, height, width, {count}] with other sizes")

    @cached_property
    def _side_axes(self) -> tuple[int, int]:
        """The axes of height and width in a row."""
        return (1, 2) if self._channel_axis == 0 else (0, 1)

    @cached_property
    def _wanted(self) -> tuple[int | None, int | None]:
        """Height and width of the input; None where it leaves them open."""
        sizes = [self.spec.shape[1:][axis] for axis in self._side_axes]
        height, width = (size if isinstance(size, int) else None for size in sizes)
        return height, width

    @cached_property
    def _longest(self) -> int:
        return self._rounded(self.max_side)

    def _rounded(self, length: int) -> int:
        """The length rounded up to a multiple."""
        return -(-length // self.multiple_of) * self.multiple_of

    @cached_property
    def _background(self) -> tuple[int, ...]:
        return (self.background,) * 3 if isinstance(self.background, int) else tuple(self.background)

    @cached_property
    def _factors(self) -> tuple[float, Array, Array]:
        """Scale, and mean and std of each channel."""
        count = 1 if self.color == "gray" else 3
        scale = self.scale if self.scale is not None else 1.0 if self.spec.dtype == "uint8" else 1 / 255
        mean, std = (np.atleast_1d(np.asarray(values, np.float64)) for values in (self.mean, self.std))
        for name, values in (("mean", mean), ("std", std)):
            self._require(values.shape in ((1,), (count,)), f"has {values.size} channels in {name}", f"set one number, or {count}")
        self._require(bool(scale and (std > 0).all()), "has a scale of 0, or a std that is not above 0", "correct it")
        return scale, np.broadcast_to(mean, count), np.broadcast_to(std, count)

    @cached_property
    def _table(self) -> Array:
        """The normalised values of each channel, by pixel value."""
        scale, mean, std = self._factors
        table = (np.arange(_LEVELS) * scale - mean[:, None]) / std[:, None]
        if self.spec.dtype == "uint8":
            held = np.array_equal(table, np.clip(np.round(table), 0, _LEVELS - 1))
            self._require(held, "is uint8, which cannot hold what scale, mean and std give", "leave them out")
        return table.astype(self.spec.numpy_dtype)

    def _levels(self, row: Array) -> Array:
        """The row as shares of white, before it was normalised."""
        scale, mean, std = self._factors
        if self._channel_axis == 0:
            mean, std = mean[:, None, None], std[:, None, None]
        return np.asarray((row.astype(np.float64) * std + mean) / scale / (_LEVELS - 1))

    def _bytes(self, value: Any) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            advice = "give the bytes of the file, in JSON as base64; of a file in the data, let data.reader return path.read_bytes()"
            raise RequestError(f"input {self.column!r} must be the bytes of a picture (got {type(value).__name__})", advice)
        if len(value) > self.max_bytes:
            raise RequestError(
                f"input {self.column!r} has {len(value):,} bytes, and the limit is {self.max_bytes:,}", "give a smaller file"
            )
        return bytes(value)

    def _decoded(self, value: Any) -> Pillow.Image:
        content = self._bytes(value)
        return pictures.decoded(content, what=f"input {self.column!r}", max_pixels=self.max_pixels, background=self._background)

    def _sized(self, picture: Pillow.Image) -> Pillow.Image:
        """The picture in the size of the input; for `height`, up to its width."""
        wanted_height, wanted_width = self._wanted
        (width, height), crop = picture.size, (wanted_width or picture.width, wanted_height or picture.height)
        if self.resize == "none":
            return self._cropped(picture, crop)
        if self.resize == "exact":
            return self._resized(picture, crop)
        if self.resize == "shorter":
            factor = (self.resize_to or max(crop)) / min(width, height)
            return self._cropped(self._resized(picture, (round(width * factor), round(height * factor))), crop)
        if self.resize == "fit":
            return self._fitted(picture, crop)
        if self.resize == "height":
            most = self._longest if wanted_width is None else wanted_width
            return self._resized(picture, (min(most, math.ceil(crop[1] * width / height)), crop[1]))
        factor = min(1, self.max_side / max(width, height))
        return self._resized(picture, (self._multiple(width * factor), self._multiple(height * factor)))

    def _multiple(self, length: float) -> int:
        return min(self._longest, max(1, round(length / self.multiple_of)) * self.multiple_of)

    def _resized(self, picture: Pillow.Image, size: tuple[int, int]) -> Pillow.Image:
        """Raises RequestError if what Pillow computes on the way, which has the new width and the old height, is too large."""
        from PIL import Image

        if (pixels := size[0] * max(size[1], picture.height)) > _MOST_RESIZED:
            sides, wanted = (f"{width:,} × {height:,}" for width, height in (picture.size, size))
            needs = f"which needs {pixels:,} pixels to be resized to {wanted}, and the limit is {_MOST_RESIZED:,}"
            raise RequestError(f"input {self.column!r} is {sides} pixels, {needs}", "crop it first")
        return picture if size == picture.size else picture.resize(size, Image.Resampling[self.interpolation.upper()])

    def _cropped(self, picture: Pillow.Image, size: tuple[int, int]) -> Pillow.Image:
        (width, height), (wide, high) = picture.size, size
        if width < wide or height < high:
            sides = f"{width:,} × {height:,} pixels, and the model takes {wide:,} × {high:,}"
            raise RequestError(f"input {self.column!r} has {sides}", "give a larger picture, or set resize in preprocess")
        left, top = (width - wide) // 2, (height - high) // 2
        return picture.crop((left, top, left + wide, top + high))

    def _fitted(self, picture: Pillow.Image, size: tuple[int, int]) -> Pillow.Image:
        from PIL import Image

        factor = min(size[0] / picture.width, size[1] / picture.height)
        part = self._resized(picture, (max(1, round(picture.width * factor)), max(1, round(picture.height * factor))))
        canvas = Image.new("RGB", size, self._background).convert(part.mode)
        canvas.paste(part, ((size[0] - part.width) // 2, (size[1] - part.height) // 2))
        return canvas

    def _padded(self, row: Array, sizes: Sequence[int]) -> Array:
        """The row with `pad` at the end of its sides up to these sizes, where they are larger."""
        missing = [(0, 0)] * row.ndim
        for axis, wanted in zip(self._side_axes, sizes, strict=True):
            missing[axis] = (0, max(0, wanted - row.shape[axis]))
        return np.pad(row, missing, constant_values=self.spec.pad)

    def _require(self, passed: bool, reason: str, advice: str) -> None:
        if not passed:
            raise self._refused(reason, advice)

    def _refused(self, reason: str, advice: str) -> DataError:
        return DataError(f"the picture {self.spec.name!r} of model.inputs {reason}: {advice}")


def _bomb() -> bytes:
    """A PNG whose header says that it has more pixels than any limit."""
    import struct
    import zlib

    head, body = struct.pack(">IIBBBBB", 2**16, 2**16, 8, 2, 0, 0, 0), zlib.compress(bytes(2**16))
    chunks = [
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in ((b"IHDR", head), (b"IDAT", body))
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


KIND = Kind("image", Picture, "the bytes of a picture become its pixels: decoded, resized, normalised", requirements=("pillow==13.0.0",))
