"""Weights that weight_norm and spectral_norm derive from the checkpoint: the program holds only the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from paddleship.numerics.differences import Array, wide
from paddleship.weights.candidate_tensors import Tensor

_ROUNDING = 1e-5  # of the largest value, between Paddle's float32 and these formulas


def sources(path: str, checkpoint: Mapping[str, Array]) -> tuple[str, ...]:
    """The weights that the tensor at `path` was derived from; empty if it was not derived."""
    for endings in (("_g", "_v"), ("_orig", "_u", "_v")):
        names = tuple(path + ending for ending in endings)
        if all(name in checkpoint for name in names):
            return names
    return ()


def matches(sources: tuple[Array, ...], tensor: Tensor) -> bool:
    """Whether a tensor was derived from these weights, along any axis that fits their shapes."""
    made = _by_norm(*sources) if len(sources) == 2 else _by_spectrum(*sources)
    held, step = wide(tensor.values), 0.0 if tensor.step is None else tensor.step
    return any(
        one.shape == held.shape and bool((np.abs(one - held) <= step / 2 + _ROUNDING * np.abs(one).max(initial=0)).all()) for one in made
    )


def _by_norm(size: Array, direction: Array) -> Iterator[Array]:
    """Size × direction / |direction|, with the norm over all axes except one, or over all."""
    values, count = wide(direction), size.size
    for axis in range(direction.ndim):
        if direction.shape[axis] == count:
            others = tuple(dimension for dimension in range(direction.ndim) if dimension != axis)
            shape = [count if dimension == axis else 1 for dimension in range(direction.ndim)]
            yield values / np.sqrt((values**2).sum(axis=others, keepdims=True)) * wide(size).reshape(shape)
    if count == 1:
        yield values / np.sqrt((values**2).sum()) * float(wide(size).ravel()[0])


def _by_spectrum(weight: Array, left: Array, right: Array) -> Iterator[Array]:
    """Weight / (left · matrix · right), where the matrix has one axis first and all others flattened."""
    for axis in range(weight.ndim):
        matrix = np.moveaxis(wide(weight), axis, 0).reshape(weight.shape[axis], -1)
        if matrix.shape == (left.size, right.size):
            yield wide(weight) / (wide(left).ravel() @ matrix @ wide(right).ravel())
