"""Whether a candidate holds the checkpoint's weights.

Names do not survive export, so tensors are matched by content: equal bytes first (for ONNX also in another shape or
transposed), then the nearest of the same shape. A tensor without a counterpart may have been folded into another or
be of no use to forward; nothing is said of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from paddleship.finding import Finding
from paddleship.measures import Array, wide

_MOSTLY = 0.5  # so many differ: another checkpoint, not a fault in one weight
_NEAR = 0.5  # relative: within it an ONNX constant is taken for a changed weight
_ADVICE = "convert again from this checkpoint: `dvc repro -f export optimize`"


def compare(checkpoint: Mapping[str, Array], held: Sequence[Array], *, exact_layout: bool) -> list[Finding]:
    """What differs between the checkpoint and the tensors that a candidate holds; `exact_layout` where shapes are kept (Paddle)."""
    missing, spare = match(checkpoint, held)
    own = {name: checkpoint[name] for name in missing}
    if rounded := _rounded(own, spare):
        message = f"{len(rounded)} weights were rounded through {rounded[min(rounded)]} ({min(rounded)} is one)"
        return [
            Finding("dtype-differs", "error", message, "convert in float32, or declare the lower precision", layer=_layer(min(rounded)))
        ]
    pairs = _pairs(own, spare, turn=not exact_layout)
    varied = sum(array.size > 1 and bool(np.ptp(wide(array))) for array in checkpoint.values())
    if len(pairs) >= max(3, _MOSTLY * varied):
        message = f"{len(pairs)} weights are not the checkpoint's ({', '.join(list(pairs)[:3])} …): the candidate was made from another one"
        return [Finding("weights-differ", "error", message, _ADVICE)]
    return [
        Finding("weights-differ", "error", f"{name} {_describe(checkpoint[name], other)}", _ADVICE, layer=_layer(name))
        for name, (distance, other) in pairs.items()
        if exact_layout or distance <= _NEAR or _permuted(checkpoint[name], other)
    ]


def match(checkpoint: Mapping[str, Array], held: Sequence[Array]) -> tuple[list[str], list[Array]]:
    """The weights that no held tensor equals, and the held tensors that equal no weight; one tensor stands for one weight."""
    waiting: dict[bytes, list[int]] = {}
    for index, array in enumerate(held):
        for key in _keys(array):
            waiting.setdefault(key, []).append(index)
    used: set[int] = set()
    missing: list[str] = []
    for name, array in checkpoint.items():
        free = next((index for index in waiting.get(_key(array), []) if index not in used), None)
        if free is None:
            missing.append(name)
        else:
            used.add(free)
    return missing, [array for index, array in enumerate(held) if index not in used and array.dtype.kind in "fV"]


def _pairs(own: Mapping[str, Array], spare: Sequence[Array], *, turn: bool) -> dict[str, tuple[float, Array]]:
    """For each weight the nearest tensor of its shape (or, where `turn`, that shape transposed) and its distance."""
    distances = []
    for name, array in own.items():
        for index, other in enumerate(spare):
            for turned in (other, other.T) if turn and other.ndim == 2 else (other,):
                if turned.shape == array.shape and array.dtype.kind == "f" and not (turn and _scaled(array, turned)):
                    distances.append((_distance(array, turned), name, index, turned))
    found: dict[str, tuple[float, Array]] = {}
    used: set[int] = set()
    for distance, name, index, other in sorted(distances, key=lambda entry: entry[:3]):
        if name not in found and index not in used:
            used.add(index)
            found[name] = (distance, other)
    return found


def _describe(own: Array, other: Array) -> str:
    if words := _permuted(own, other):
        return words
    if not np.isfinite(wide(other)).all():
        return "holds NaN or infinity in the candidate"
    apart = np.abs(wide(own) - wide(other))
    worst = np.unravel_index(int(apart.argmax()), own.shape)
    place = f" at {[int(index) for index in worst]}" if own.ndim else ""
    share = f" ({apart[worst] / abs(float(own[worst])):.2g} of it)" if own[worst] else ""
    return (
        f"differs from the checkpoint in {int((apart > 0).sum()):,} of {own.size:,} values, "
        f"most{place}: {float(other[worst]):.6g}, expected {float(own[worst]):.6g}{share}"
    )


def _permuted(own: Array, other: Array) -> str:
    """Words for a tensor that is the weight with slices in another order along one axis; empty otherwise."""
    for axis in range(own.ndim if own.ndim > 1 else 0):
        mine, theirs = ([part.tobytes() for part in np.moveaxis(array, axis, 0)] for array in (own, other))
        if mine != theirs and sorted(mine) == sorted(theirs):
            moved = [index for index, part in enumerate(mine) if part != theirs[index]]
            return f"has its channels in another order along axis {axis} ({', '.join(map(str, moved[:6]))}{' …' if len(moved) > 6 else ''})"
    return ""


def _scaled(own: Array, other: Array) -> bool:
    """Whether each slice along the first axis is the weight's times one number, as folding a batch norm leaves it."""
    if own.ndim < 2:
        return False
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (wide(other) / wide(own)).reshape(len(own), -1)
    spread = np.nanmax(ratio, 1) - np.nanmin(ratio, 1)
    return bool((spread <= 1e-4 * np.abs(np.nanmean(ratio, 1))).all()) and float(np.ptp(np.nanmean(ratio, 1))) > 1e-4


def _rounded(own: Mapping[str, Array], spare: Sequence[Array]) -> dict[str, str]:
    """Weights that a spare tensor equals after rounding through a smaller dtype, with the dtype."""
    held = {_key(wide(array).astype(np.float32)) for array in spare}
    found = {}
    for name, array in own.items():
        if array.dtype != np.float32 or not array.size:
            continue
        bits = array.view(np.uint32).astype(np.uint64)
        brain = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)
        with np.errstate(over="ignore"):
            small = array.astype(np.float16).astype(np.float32)
        for dtype, array_ in (("float16", small), ("bfloat16", brain)):
            if not np.array_equal(array_, array) and _key(array_) in held:
                found[name] = dtype
    return found


def _distance(own: Array, other: Array) -> float:
    size = float(np.linalg.norm(wide(own)))
    apart = float(np.linalg.norm(wide(own) - wide(other)))
    return float(np.nan_to_num(apart / size if size else apart, nan=np.inf))


def _keys(array: Array) -> list[bytes]:
    return list(dict.fromkeys([_key(array), _key(array.T)])) if array.ndim == 2 else [_key(array)]


def _key(array: Array) -> bytes:
    """Content whatever the shape."""
    return str(array.dtype).encode() + np.ascontiguousarray(array).tobytes()


def _layer(name: str) -> str:
    return name.rpartition(".")[0] or name
