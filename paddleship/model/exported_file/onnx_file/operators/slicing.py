"""Operators that take a part of a tensor, or put elements around it."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddleship.model.exported_file.onnx_file.node import Node
from paddleship.model.exported_file.onnx_file.operators import Writer
from paddleship.model.exported_file.onnx_file.values import Size, Sizes, Unsupported, Value

_END = 2**31 - 1  # the largest index that Paddle takes


def _slice(node: Node) -> Value:
    x = node.value(0)
    starts, ends = (_bounds(node, name, index) for name, index in (("starts", 1), ("ends", 2)))
    axes = node.ints("axes", 3) or list(range(len(starts)))
    steps = node.ints("steps", 4) or [1] * len(starts)
    if isinstance(x, Sizes):
        return _slice_of_sizes(x, starts[0], ends[0], steps[0])
    tensor = node.tensor(0)
    rank = len(tensor.shape)
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        tensor = _sliced(node, tensor, axis % rank, start, end, step)
    return tensor


def _bounds(node: Node, name: str, index: int) -> list[Size]:
    found = node.ints(name) if node.attribute(name) is not None else None
    return found if found is not None else list(node.sizes(index).items)


def _slice_of_sizes(x: Sizes, start: Size, end: Size, step: int) -> Sizes:
    if not isinstance(start, int) or not isinstance(end, int):
        raise Unsupported("of sizes, with calculated bounds")
    return Sizes(x.items[slice(start, max(end, -(2**62)) if step > 0 or end > -(2**31) else None, step)], False, x.dtype)


def _sliced(node: Node, x: Any, axis: int, start: Size, end: Size, step: int) -> Any:
    """One dimension of a tensor from `start` to before `end`."""
    size = x.shape[axis]
    if isinstance(start, int) and isinstance(end, int) and size >= 0:
        first, last, step = slice(start, end, step).indices(size)
        if step > 0:
            return x if (first, last, step) == (0, size, 1) else _forward(node, x, axis, first, max(first, last), step)
        flipped = node.paddle.flip(x, [axis])
        return _sliced(node, flipped, axis, size - 1 - first, size - 1 - last, -step)
    if step > 0:
        return _forward(node, x, axis, start, end, step)
    if isinstance(start, int) and isinstance(end, int) and (start == -1 or start >= _END) and end < -_END + 1:
        return _forward(node, node.paddle.flip(x, [axis]), axis, 0, _END, -step)
    raise Unsupported("backwards along a dynamic dimension")


def _forward(node: Node, x: Any, axis: int, start: Size, end: Size, step: int) -> Any:
    bounds = [[min(max(bound, -_END), _END) if isinstance(bound, int) else bound] for bound in (start, end)]
    if step == 1:
        return node.paddle.slice(x, [axis], *bounds)
    return node.paddle.strided_slice(x, [axis], *bounds, [step])


def _pad(node: Node) -> Any:
    x, mode = node.tensor(0), node.attribute("mode", "constant")
    pads, axes = node.ints("pads", 1) or [], node.ints("axes", 3)
    number = node.number("value", 2, 0.0) or 0.0
    rank = len(x.shape)
    chosen = [axis % rank for axis in axes] if axes else list(range(rank))
    return padded(node, x, {axis: (pads[index], pads[index + len(chosen)]) for index, axis in enumerate(chosen)}, mode, number)


def padded(node: Node, x: Any, pads: dict[int, tuple[int, int]], mode: str = "constant", number: float = 0.0) -> Any:
    """A tensor with these numbers of elements before and after; negative ones remove elements."""
    for axis, (before, after) in pads.items():
        if before < 0 or after < 0:
            x = _sliced(node, x, axis, max(0, -before), -max(0, -after) or _END, 1)
    wanted = {axis: (max(0, before), max(0, after)) for axis, (before, after) in pads.items() if before > 0 or after > 0}
    if not wanted:
        return x
    if mode == "constant":
        parts = [part for axis in range(len(x.shape)) for part in wanted.get(axis, (0, 0))]
        return node.functional.pad(x, parts, mode="constant", value=number, pad_from_left_axis=True)
    for axis, pair in wanted.items():
        x = _repeated(node, x, axis, pair, mode)
    return x


def _repeated(node: Node, x: Any, axis: int, pair: tuple[int, int], mode: str) -> Any:
    """One dimension of a tensor with copies of its elements before and after."""
    size, last = x.shape[axis], len(x.shape) - 1
    if size < 0 and axis == last and last in (1, 2) and mode in ("reflect", "edge"):
        row = node.paddle.unsqueeze(x, [1]) if last == 1 else x
        row = node.functional.pad(row, list(pair), mode="reflect" if mode == "reflect" else "replicate", data_format="NCL")
        return node.paddle.squeeze(row, [1]) if last == 1 else row
    if size < 0 or mode not in ("reflect", "edge", "wrap"):
        raise Unsupported(f"in mode {mode!r}" + (" along a dynamic dimension" if size < 0 else ""))
    indices = np.pad(np.arange(size), pair, mode=mode)  # type: ignore[call-overload]
    return node.paddle.gather(x, node.paddle.assign(indices.astype(np.int64)), axis=axis)


OPERATORS: dict[str, Writer] = {"Slice": _slice, "Pad": _pad}
