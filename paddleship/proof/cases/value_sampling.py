"""Draw values for an input: level or noisy around a random centre, for all rows or for each, and in half of the tries with a patch."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddleship.numerics.differences import Array

Limits = tuple[Any, Any]  # the lowest and the highest value; None: no limit

_SPREADS = (0.0, 0.1, 1.0)  # standard deviations, in units of the size


def redraw(array: Array, limits: Limits, size: float, random: np.random.Generator, *, axis: int | None = None) -> Array:
    """Other values of the same shape and dtype within the limits, or of this `size` without limits; rows are along `axis`.

    Integers without both limits stay unchanged.
    """
    if array.dtype.kind in "iu" and None in limits:
        return array
    if axis is not None and random.random() < 0.5:
        rows = [_drawn(row, limits, size, random) for row in np.moveaxis(array, axis, 0)]
        return np.moveaxis(np.stack(rows), 0, axis) if rows else array
    return _drawn(array, limits, size, random)


def _drawn(array: Array, limits: Limits, size: float, random: np.random.Generator) -> Array:
    drawn = _level(array, limits, size, random)
    if array.ndim and random.random() < 0.5:
        patch = _box(array.shape, random)
        drawn[patch] = _level(array[patch], limits, size, random)
    return drawn


def _level(array: Array, limits: Limits, size: float, random: np.random.Generator) -> Array:
    """Values from a uniform distribution over a part of the range; without a range, from a normal distribution around zero or the size."""
    low, high = limits
    if array.dtype.kind == "b":
        return np.asarray(random.random(array.shape) < random.random())
    if low is not None and high is not None:
        first, last = sorted((float(random.uniform(low, high)), float(random.uniform(low, high))))
        drawn = random.uniform(first, last, array.shape)
        return np.asarray(np.clip(np.rint(drawn) if array.dtype.kind in "iu" else drawn, low, high), array.dtype)
    drawn = random.normal(random.choice((-1, 0, 1)) * size, random.choice(_SPREADS) * size, array.shape)
    return np.asarray(np.clip(drawn, low, high), array.dtype)


def _box(shape: tuple[int, ...], random: np.random.Generator) -> tuple[slice, ...]:
    """A box in an array: an interval of random position and length along each axis."""
    ends = [sorted(random.integers(0, length, 2, endpoint=True).tolist()) for length in shape]
    return tuple(slice(first, max(last, first + 1)) for first, last in ends)
