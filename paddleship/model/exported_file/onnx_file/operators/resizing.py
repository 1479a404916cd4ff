"""Operators that calculate a picture of another size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from paddleship.model.exported_file.onnx_file import folding, values
from paddleship.model.exported_file.onnx_file.node import Node
from paddleship.model.exported_file.onnx_file.operators import Writer
from paddleship.model.exported_file.onnx_file.values import Array, Size, Unsupported

_Wanted = tuple[Size, float | None]  # the new size of a dimension, and its scale
_MOST_WEIGHTS = 2**14

_PADDLES: Mapping[tuple[str, str], Mapping[str, Any]] = {  # mode, coordinates and rounding of ONNX: the arguments of Paddle's interpolate
    ("linear", "half_pixel"): {"mode": "bilinear", "align_corners": False, "align_mode": 0},
    ("linear", "pytorch_half_pixel"): {"mode": "bilinear", "align_corners": False, "align_mode": 0},
    ("linear", "asymmetric"): {"mode": "bilinear", "align_corners": False, "align_mode": 1},
    ("linear", "align_corners"): {"mode": "bilinear", "align_corners": True},
    ("cubic", "half_pixel"): {"mode": "bicubic", "align_corners": False},
    ("cubic", "pytorch_half_pixel"): {"mode": "bicubic", "align_corners": False},
    ("nearest", "asymmetric"): {"mode": "nearest"},
}


def _resize(node: Node) -> Any:
    x = node.tensor(0)
    if node.opset < 11:
        scales, sizes, coordinates = _floats(node, 1), None, "asymmetric"
    else:
        scales, sizes, coordinates = _floats(node, 2), _sizes(node, 3), node.attribute("coordinate_transformation_mode", "half_pixel")
    if coordinates == "tf_crop_and_resize" or node.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unsupported("with a region or an aspect ratio")
    axes = [axis % len(x.shape) for axis in node.ints("axes") or range(len(x.shape))]
    if scales is not None:
        sizes = [x.shape[axis] if scale == 1 else _scaled(x.shape[axis], scale) for axis, scale in zip(axes, scales, strict=True)]
    return _resized(node, x, axes, sizes or [], scales, coordinates)


def _floats(node: Node, index: int) -> list[float] | None:
    if node.attribute("scales") is not None:
        return list(node.attribute("scales"))
    array = node.known(index) if node.has(index) and not _is_empty(node.value(index)) else None
    return None if array is None else [float(item) for item in array]


def _is_empty(value: Any) -> bool:
    return values.is_known(value) and not value.size


def _sizes(node: Node, index: int) -> list[Size] | None:
    return list(node.sizes(index).items) if node.has(index) and not _is_empty(node.value(index)) else None


def _scaled(size: int, scale: float) -> int:
    return int(np.floor(size * scale)) if size >= 0 else -1


def _resized(node: Node, x: Any, axes: list[int], sizes: list[Size], scales: list[float] | None, coordinates: str) -> Any:
    if scales is not None:
        changed = [index for index, scale in enumerate(scales) if scale != 1]
    else:  # a size that is not known is that of the input, outside a picture
        changed = [
            index for index, axis in enumerate(axes)
            if (sizes[index] != x.shape[axis] if isinstance(sizes[index], int) else axis > 1)
        ]  # fmt: skip
    wanted = {axes[index]: (sizes[index], scales[index] if scales else _scale(sizes[index], x.shape[axes[index]])) for index in changed}
    if not wanted:
        return x
    if (arguments := _by_paddle(node, x, wanted, coordinates, by_scale=scales is not None)) is not None:
        return _interpolated(node, x, wanted, arguments, by_scale=scales is not None)
    for axis, (size, scale) in wanted.items():
        if not isinstance(size, int) or size < 0 or x.shape[axis] < 0:
            raise Unsupported(f"with mode {node.attribute('mode', 'nearest')!r}, the coordinates {coordinates!r} and a dynamic size")
        x = _along(node, x, axis, size, scale if scales else None, coordinates)
    return x


def _scale(size: Size, before: int) -> float | None:
    return size / before if isinstance(size, int) and size >= 0 and before > 0 else None


def _along(node: Node, x: Any, axis: int, size: int, scale: float | None, coordinates: str) -> Any:
    """One dimension of a tensor in another size: each new element is a sum of old ones, with weights that the reference calculates."""
    weights = _weights(node, x.shape[axis], size, scale, coordinates)
    chosen = weights.argmax(1)
    if ((weights == 0) | (weights == 1)).all() and (weights.sum(1) == 1).all():
        return _repeated(node, x, axis, chosen)
    rank = len(x.shape)
    matrix = node.made(weights, f"resize_{axis}_{x.shape[axis]}_{size}")
    if axis == rank - 1:
        return node.paddle.matmul(x, matrix, transpose_y=True)
    if axis == rank - 2:
        return node.paddle.matmul(matrix, x)
    order = [*(one for one in range(rank) if one != axis), axis]
    moved = node.paddle.matmul(node.paddle.transpose(x, order), matrix, transpose_y=True)
    return node.paddle.transpose(moved, [order.index(one) for one in range(rank)])


def _repeated(node: Node, x: Any, axis: int, chosen: Array) -> Any:
    return node.paddle.gather(x, node.paddle.assign(chosen.astype(np.int64)), axis=axis)


def _weights(node: Node, before: int, after: int, scale: float | None, coordinates: str) -> Array:
    """[after, before] weights of the old elements. Where two neighbours count at most, they follow from the interpolation of 0, 1, 2, …"""
    if node.attribute("mode", "nearest") == "cubic" or node.attribute("antialias", 0):
        if before * after > _MOST_WEIGHTS:
            raise Unsupported("of that size, with mode 'cubic' or antialias")
        return _reference(node, np.eye(before, dtype=np.float32), after, scale, coordinates)
    position = _reference(node, np.arange(before, dtype=np.float32), after, scale, coordinates)
    low = np.floor(position).astype(int)
    weights = np.zeros((after, before), np.float32)
    weights[np.arange(after), low] = 1 - (position - low)
    weights[np.arange(after), np.minimum(low + 1, before - 1)] += position - low
    return weights


def _reference(node: Node, x: Array, after: int, scale: float | None, coordinates: str) -> Array:
    """The first dimension of an array in another size, as ONNX's reference calculates it. Raises Unsupported."""
    import onnx

    others = list(x.shape[1:])
    names = ["x", "", "scales"] if scale is not None else ["x", "", "", "sizes"]
    last = np.array([scale, *[1.0] * len(others)], np.float32) if scale is not None else np.array([after, *others], np.int64)
    kept = {name: node.attribute(name) for name in ("mode", "nearest_mode", "cubic_coeff_a", "exclude_outside", "antialias")}
    kept |= {"coordinate_transformation_mode": coordinates} | ({"nearest_mode": "floor"} if node.opset < 11 else {})
    proto = onnx.helper.make_node("Resize", names, ["y"], **{name: value for name, value in kept.items() if value is not None})
    found = folding.evaluate(proto, [x, *(None for _ in names[1:-1]), last], max(node.opset, 18))
    if found is None:
        raise Unsupported(f"with mode {node.attribute('mode', 'nearest')!r} and the coordinates {coordinates!r}")
    return found[0]


def _by_paddle(node: Node, x: Any, wanted: Mapping[int, _Wanted], coordinates: str, *, by_scale: bool) -> Mapping[str, Any] | None:
    """The arguments of Paddle's interpolate that give the same picture; None if there are none."""
    mode, rounding = node.attribute("mode", "nearest"), "floor" if node.opset < 11 else node.attribute("nearest_mode", "round_prefer_floor")
    whole = all(scale is not None and scale == int(scale) for _, scale in wanted.values())
    if mode == "nearest" and whole and (coordinates, rounding) == ("half_pixel", "round_prefer_floor"):
        coordinates, rounding = "asymmetric", "floor"  # the same elements if the scale is a whole number
    exact = all(scale is not None and (x.shape[axis] if x.shape[axis] > 0 else 1) * scale % 1 == 0 for axis, (_, scale) in wanted.items())
    if by_scale and not exact:  # Paddle's ratio is that of the two sizes, ONNX's is the scale
        return None
    inexact = (mode == "nearest" and rounding != "floor") or (mode == "cubic" and node.attribute("cubic_coeff_a", -0.75) != -0.75)
    if len(x.shape) != 4 or min(wanted) < 2 or inexact or node.attribute("exclude_outside", 0) or node.attribute("antialias", 0):
        return None
    return _PADDLES.get((mode, coordinates))


def _interpolated(node: Node, x: Any, wanted: Mapping[int, _Wanted], arguments: Mapping[str, Any], *, by_scale: bool) -> Any:
    if by_scale:
        return node.functional.interpolate(x, scale_factor=[wanted.get(axis, (0, 1.0))[1] for axis in (2, 3)], **arguments)
    own = values.sizes_of(x)
    return node.functional.interpolate(x, size=[wanted.get(axis, (own[axis], None))[0] for axis in (2, 3)], **arguments)


def _grid_sample(node: Node) -> Any:
    mode = {"bilinear": "bilinear", "linear": "bilinear", "nearest": "nearest"}.get(node.attribute("mode", "linear"))
    x = node.tensor(0)
    if mode is None or len(x.shape) != 4:
        raise Unsupported(f"with mode {node.attribute('mode')!r}")
    return node.functional.grid_sample(
        x, node.tensor(1), mode=mode, padding_mode=node.attribute("padding_mode", "zeros"),
        align_corners=bool(node.attribute("align_corners", 0)),
    )  # fmt: skip


OPERATORS: dict[str, Writer] = {"Resize": _resize, "Upsample": _resize, "GridSample": _grid_sample}
