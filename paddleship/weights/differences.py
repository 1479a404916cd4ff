"""Describe how a tensor of a candidate differs from the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from paddleship.numerics.differences import Array, wide

_SHOWN = 6
_WHOLE = {"b", "i", "u"}  # numpy's kinds of integers and bools; a converter may change the type


def equal(own: Array, other: Array) -> bool:
    """Whether two tensors hold the same numbers in the same order; NaN equals NaN, and shapes may differ."""
    if own.size != other.size:
        return False
    if own.dtype == other.dtype and own.tobytes() == other.tobytes():
        return True
    alike = own.dtype.kind == other.dtype.kind or {own.dtype.kind, other.dtype.kind} <= _WHOLE
    return alike and bool(np.array_equal(own.ravel(), other.ravel(), equal_nan=own.dtype.kind == "f"))


def describe(own: Array, other: Array, checkpoint: Mapping[str, Array], *, source: str = "the checkpoint") -> str:
    """How `other`, which the candidate has instead of `own` (a weight called `source`), differs; `checkpoint` has the other weights."""
    if other.size != own.size:
        return f"has the shape {list(other.shape)} in the candidate, {list(own.shape)} in {source}"
    if other.dtype.kind != own.dtype.kind:
        return f"is {other.dtype} in the candidate, {own.dtype} in {source}"
    other = other.reshape(own.shape)
    if other_name := twin(own, other, checkpoint):
        return f"holds the numbers of {other_name}: the two were exchanged or one was repeated"
    if not np.isfinite(wide(other)).all() and np.isfinite(wide(own)).all():
        return "holds NaN or infinity in the candidate"
    return rounded(own, other) or _permuted(own, other) or _zeroed(own, other, source) or _largest_difference(own, other, source)


def twin(own: Array, other: Array, checkpoint: Mapping[str, Array]) -> str | None:
    """The weight of the checkpoint whose values `other` holds instead of those of `own`."""
    return next((name for name, array in checkpoint.items() if array.shape == own.shape and equal(array, other)), None)


def rounded(own: Array, other: Array) -> str:
    """A message for a float32 tensor that was rounded through a smaller dtype; otherwise empty."""
    if own.dtype != np.float32 or not own.size:
        return ""
    bits = own.view(np.uint32).astype(np.uint64)
    brain = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    with np.errstate(over="ignore"):
        small = own.astype(np.float16).astype(np.float32)
    for dtype, through in (("float16", small), ("bfloat16", brain)):
        if np.array_equal(through, other) and not np.array_equal(through, own):
            return f"was rounded through {dtype}"
    return ""


def _permuted(own: Array, other: Array) -> str:
    """A message for a tensor with slices of the weight in another order along one axis; otherwise empty."""
    for axis in range(own.ndim if own.ndim > 1 else 0):
        mine, theirs = ([part.tobytes() for part in np.moveaxis(array, axis, 0)] for array in (own, other))
        if mine != theirs and sorted(mine) == sorted(theirs):
            moved = [index for index, part in enumerate(mine) if part != theirs[index]]
            return f"has its slices in another order along axis {axis} ({_listed(moved)})"
    return ""


def _zeroed(own: Array, other: Array, source: str) -> str:
    """A message for a tensor with slices of zeros along one axis; otherwise empty."""
    for axis in range(own.ndim):
        differs = (own != other).any(axis=tuple(dimension for dimension in range(own.ndim) if dimension != axis))
        indices = np.flatnonzero(differs)
        if len(indices) < own.shape[axis] and not np.take(other, indices, axis).any():
            return f"is zero along axis {axis} at {_listed(indices.tolist())}, and {source} is not"
    return ""


def _largest_difference(own: Array, other: Array, source: str) -> str:
    distances = np.abs(wide(own) - wide(other))
    worst = np.unravel_index(int(np.nan_to_num(distances, nan=np.inf).argmax()), own.shape)
    position = f" at {[int(index) for index in worst]}" if own.ndim else ""
    share = f" ({distances[worst] / abs(float(own[worst])):.2g} of it)" if own[worst] else ""
    return (
        f"differs from {source} in {int((distances > 0).sum()):,} of {own.size:,} values, "
        f"most{position}: {float(other[worst]):.6g}, expected {float(own[worst]):.6g}{share}"
    )


def _listed(indices: list[int]) -> str:
    return f"{', '.join(map(str, indices[:_SHOWN]))}{' …' if len(indices) > _SHOWN else ''}"
