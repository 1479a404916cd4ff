"""Changes of pictures in training (train.augment), before they are resized: by built-in ones, or by a function of the user.

What is drawn for a row depends on the seed, the epoch and the number of the row alone, so a run that goes on after epoch 3 trains on the
pictures that a run without a break does. Held-out rows, the proof and a server see every picture as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from paddleship.config.sections.train import Augment
from paddleship.data.encoded_rows import EncodedRows
from paddleship.errors import ModelError, ParamsError
from paddleship.shipped.computing.preprocess import Example, Preprocess
from paddleship.shipped.computing.references import explain, resolve, user_line

if TYPE_CHECKING:
    from PIL import Image as Pillow

Change = Callable[["Pillow.Image", np.random.Generator], "Pillow.Image"]


def by_epoch(
    settings: Augment | str, preprocess: Preprocess, columns: Mapping[str, Sequence[Any]], *, seed: int
) -> Callable[[int], Sequence[Example]]:
    """The training rows by epoch, each the same whenever it is asked for. Raises ParamsError if no input is a picture."""
    if not any(one.pictorial for one in preprocess.encoders):
        raise ParamsError("train.augment changes pictures, and no input is one: set it to null, or an input's kind in preprocess to image")
    change = _built_in(settings) if isinstance(settings, Augment) else _own(settings)

    def encode(epoch: int, row: int) -> Example:
        random = np.random.default_rng([abs(seed), epoch, row])
        values = {name: [column[row]] for name, column in columns.items()}
        return preprocess.encode(values, change=lambda picture: change(picture, random))[0]

    count = len(next(iter(columns.values())))
    return lambda epoch: EncodedRows(partial(encode, epoch), count, most_bytes=0)


def _built_in(settings: Augment) -> Change:
    changes: list[Change] = [_flipped] if settings.flip else []
    changes += [partial(change, strength) for change, strength in _strengths(settings) if strength]

    def change(picture: Pillow.Image, random: np.random.Generator) -> Pillow.Image:
        for one in changes:
            picture = one(picture, random)
        return picture

    return change


def _strengths(settings: Augment) -> list[tuple[Any, float | None]]:
    return [(_cropped, settings.crop), (_rotated, settings.rotate), (_colored, settings.color)]


def _flipped(picture: Pillow.Image, random: np.random.Generator) -> Pillow.Image:
    from PIL.Image import Transpose

    return picture.transpose(Transpose.FLIP_LEFT_RIGHT) if random.random() < 0.5 else picture


def _cropped(least: float, picture: Pillow.Image, random: np.random.Generator) -> Pillow.Image:
    """A part at any place, enlarged to the size of the whole; each of its sides is at least this share."""
    from PIL.Image import Resampling

    share = random.uniform(least, 1, 2)
    left, top = random.random(2) * (1 - share) * picture.size
    width, height = share * picture.size
    return picture.resize(picture.size, Resampling.BILINEAR, (left, top, left + width, top + height))


def _rotated(most: float, picture: Pillow.Image, random: np.random.Generator) -> Pillow.Image:
    from PIL.Image import Resampling

    return picture.rotate(random.uniform(-most, most), Resampling.BILINEAR)


def _colored(most: float, picture: Pillow.Image, random: np.random.Generator) -> Pillow.Image:
    from PIL import ImageEnhance

    for kind in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        picture = kind(picture).enhance(random.uniform(1 - most, 1 + most))
    return picture


def _own(reference: str) -> Change:
    function = resolve(reference, key="train.augment", error=ModelError)

    def change(picture: Pillow.Image, random: np.random.Generator) -> Pillow.Image:
        from PIL import Image

        try:
            changed = function(picture, random)
        except Exception as failure:
            message = f"train.augment {reference!r} failed on {picture!r} ({explain(failure)}): fix that function"
            raise ModelError(message, where=user_line(failure)) from None
        if not isinstance(changed, Image.Image):
            raise ModelError(f"train.augment {reference!r} returned {type(changed).__name__}: let it return a PIL.Image.Image")
        return changed

    return change
