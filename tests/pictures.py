"""Pictures that tests draw, encode and send."""

import io

import numpy as np
from PIL import Image


def drawn(width=40, height=30, *, seed=0):
    """A smooth picture without symmetry, in colour."""
    random = np.random.default_rng(seed)
    across, down = np.linspace(0, 1, width), np.linspace(0, 1, height)[:, None]
    planes = [255 * (weight * across + (1 - weight) * down**2) * share for weight, share in random.uniform(0.3, 1, (3, 2))]
    return Image.fromarray(np.stack(np.broadcast_arrays(*planes), -1).astype(np.uint8))


def encoded(picture, form="PNG", **options):
    """The bytes of a file."""
    file = io.BytesIO()
    picture.save(file, form, **options)
    return file.getvalue()
