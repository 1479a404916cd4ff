"""Operators that make, ask and change shapes."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddleship.model.exported_file.onnx_file import values
from paddleship.model.exported_file.onnx_file.node import Node
from paddleship.model.exported_file.onnx_file.operators import Writer
from paddleship.model.exported_file.onnx_file.values import Size, Sizes, Unsupported, Value


def _shape(node: Node) -> Sizes:
    sizes = values.sizes_of(node.tensor(0))
    return Sizes(tuple(sizes[node.attribute("start", 0) : node.attribute("end")]))


def _size(node: Node) -> Value:
    x = node.tensor(0)
    return Sizes((values.product(x.shape),), True) if all(size >= 0 for size in x.shape) else node.paddle.numel(x)


def _reshape(node: Node) -> Value:
    value = node.value(0)
    target = values.as_sizes(node.value(1))
    items = list(target.items if target is not None else ())
    if isinstance(value, Sizes) and target is not None and target.known and items in ([], [1], [-1], [len(value.items)]):
        return Sizes(value.items, not items, value.dtype)
    if target is None:
        return node.paddle.reshape(node.tensor(0), node.tensor(1))
    return reshaped(node, node.tensor(0), _without_copies(node, node.tensor(0), items))


def _without_copies(node: Node, x: Any, items: list[Size]) -> list[Size]:
    """The sizes of the new shape; 0 copies that of the input, as does a first 1 in a file for one row."""
    if node.one_row and items and isinstance(items[0], int) and items[0] == 1 and list(x.shape[:1]) == [-1]:
        items = [0, *items[1:]]
    if not any(isinstance(item, int) and item == 0 for item in items) or node.attribute("allowzero", 0):
        return items
    sizes = values.sizes_of(x)
    return [sizes[axis] if isinstance(item, int) and item == 0 else item for axis, item in enumerate(items)]


def reshaped(node: Node, x: Any, items: list[Size]) -> Any:
    """A tensor in another shape; a single size that is calculated is left to Paddle, so that the program holds numbers only."""
    calculated = [axis for axis, item in enumerate(items) if not isinstance(item, int)]
    left_out = [axis for axis, item in enumerate(items) if isinstance(item, int) and item == -1]
    if len(calculated) == 1 and not left_out:
        items = [-1 if axis in calculated else item for axis, item in enumerate(items)]
    elif len(left_out) == len(calculated) == 1:
        items = _with_left_out(x, items, left_out[0])
    return node.paddle.reshape(x, items)


def _with_left_out(x: Any, items: list[Size], axis: int) -> list[Size]:
    """The sizes with the one that is left out, if it follows from those that are known: one size is calculated on both sides."""
    known, asked = [size for size in x.shape if size >= 0], [item for item in items if isinstance(item, int) and item != -1]
    whole, rest = divmod(values.product(known), max(values.product(asked), 1))
    return items if len(known) != len(x.shape) - 1 or rest else [whole if index == axis else item for index, item in enumerate(items)]


def _flatten(node: Node) -> Any:
    x, axis = node.tensor(0), node.attribute("axis", 1)
    rank, sizes = len(x.shape), values.sizes_of(x)
    axis = axis + rank if axis < 0 else axis
    if axis == 1 and rank > 1:
        return node.paddle.flatten(x, 1, -1) if rank > 2 else x
    before = sizes[:axis]
    known = all(isinstance(size, int) for size in before)
    return node.paddle.reshape(x, [values.product(before), -1] if known else [-1, _known_product(sizes[axis:])])


def _known_product(sizes: list[Size]) -> int:
    if not all(isinstance(size, int) for size in sizes):
        raise Unsupported("over dynamic dimensions on both sides")
    return values.product(sizes)


def _squeeze(node: Node) -> Value:
    value, axes = node.value(0), node.ints("axes", 1)
    if isinstance(value, Sizes):
        return Sizes(value.items, True, value.dtype)
    x = node.tensor(0)
    return node.paddle.squeeze(x, axes if axes is not None else [axis for axis, size in enumerate(x.shape) if size == 1])


def _unsqueeze(node: Node) -> Value:
    value, axes = node.value(0), node.ints("axes", 1) or []
    if isinstance(value, Sizes) and value.scalar and len(axes) == 1:
        return Sizes(value.items, False, value.dtype)
    x = node.tensor(0)
    rank = len(x.shape) + len(axes)
    return node.paddle.unsqueeze(x, sorted(axis % rank for axis in axes))


def _transpose(node: Node) -> Any:
    x = node.tensor(0)
    return node.paddle.transpose(x, node.ints("perm") or list(range(len(x.shape)))[::-1])


def _concat(node: Node) -> Value:
    parts = [values.as_sizes(value) for value in node.values()]
    if any(isinstance(value, Sizes) for value in node.values()) and all(part is not None for part in parts):
        return Sizes(tuple(item for part in parts if part is not None for item in part.items), False, parts[0].dtype)  # type: ignore[union-attr]
    tensors = [tensor for tensor in node.tensors() if 0 not in tensor.shape] or node.tensors()
    return node.paddle.concat(tensors, axis=node.attribute("axis"))


def _split(node: Node) -> list[Value]:
    axis, lengths, value = node.attribute("axis", 0), node.ints("split", 1), node.value(0)
    size = len(value.items) if isinstance(value, Sizes) else node.tensor(0).shape[axis]
    if lengths is None:
        if size < 0:
            raise Unsupported("of a dynamic dimension")
        each = -(-size // len(node.outputs))
        lengths = [min(each, size - start) for start in range(0, size, each)]
    if isinstance(value, Sizes):
        starts = np.cumsum([0, *lengths])
        return [Sizes(value.items[start : start + length], False, value.dtype) for start, length in zip(starts, lengths, strict=False)]
    return list(node.paddle.split(node.tensor(0), lengths, axis=axis)) if len(lengths) > 1 else [value]


def _expand(node: Node) -> Any:
    x, target = node.tensor(0), values.as_sizes(node.value(1))
    if target is None:
        return node.paddle.expand(x, node.tensor(1))
    items, sizes = list(target.items), values.sizes_of(x)
    items = [1] * (len(sizes) - len(items)) + items
    sizes = [1] * (len(items) - len(sizes)) + sizes
    if all(isinstance(item, int) or not isinstance(size, int) or size == 1 for item, size in zip(items, sizes, strict=True)):
        merged = [_larger(size, item) for size, item in zip(sizes, items, strict=True)]
        return x if all(isinstance(item, int) and item == 1 for item in items) else node.paddle.expand(x, merged)
    return node.paddle.broadcast_tensors([x, node.paddle.full(items, 0, x.dtype)])[0]


def _larger(size: Size, item: Size) -> Size:
    """The size of an expanded dimension: 1 is expanded, whichever of the two is 1."""
    if isinstance(item, int):
        return size if item == 1 else item
    return item if isinstance(size, int) and size == 1 else -1


def _tile(node: Node) -> Any:
    return node.paddle.tile(node.tensor(0), list(node.sizes(1).items))


def _full(node: Node) -> Any:
    import onnx

    filled = node.attribute("value")
    array = np.zeros(1, np.float32) if filled is None else onnx.numpy_helper.to_array(filled)
    return node.paddle.full(list(node.sizes(0).items), array.reshape(-1)[0].item(), array.dtype.name)


def _constant(node: Node) -> np.ndarray[Any, Any]:
    import onnx

    if (tensor := node.attribute("value")) is not None:
        return np.asarray(onnx.numpy_helper.to_array(tensor))
    kinds = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}
    name = next((name for name in kinds if node.attribute(name) is not None), None)
    if name is None:
        raise Unsupported("without numbers")
    return np.array(node.attribute(name), kinds[name])


def _range(node: Node) -> Any:
    start, end, step = (_number(node, index) for index in range(3))
    dtype = next((value.dtype for value in node.values() if values.is_known(value)), None)
    name = dtype.name if dtype is not None else values.name_of(node.tensor(1).dtype)
    return node.paddle.arange(start, end, step, dtype=name)


def _number(node: Node, index: int) -> Any:
    value = node.value(index)
    if values.is_known(value):
        return value.reshape(-1)[0].item()
    return value.items[0] if isinstance(value, Sizes) else node.paddle.reshape(node.tensor(index), [])


def _depth_to_space(node: Node) -> Any:
    x, block = node.tensor(0), node.attribute("blocksize")
    batch, channels, height, width = values.sizes_of(x)
    column_first = node.attribute("mode", "DCR") == "DCR"
    inner = [block, block, channels // block**2] if column_first else [channels // block**2, block, block]
    order = [0, 3, 4, 1, 5, 2] if column_first else [0, 1, 4, 2, 5, 3]
    parts = node.paddle.transpose(node.paddle.reshape(x, [batch, *inner, height, width]), order)
    return reshaped(node, parts, [batch, channels // block**2, height * block, width * block])


def _space_to_depth(node: Node) -> Any:
    x, block = node.tensor(0), node.attribute("blocksize")
    batch, channels, height, width = values.sizes_of(x)
    split = node.paddle.reshape(x, [batch, channels, height // block, block, width // block, block])
    return reshaped(node, node.paddle.transpose(split, [0, 3, 5, 1, 2, 4]), [batch, channels * block**2, height // block, width // block])


OPERATORS: dict[str, Writer] = {
    "Shape": _shape, "Size": _size, "Reshape": _reshape, "Flatten": _flatten, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze,
    "Transpose": _transpose, "Concat": _concat, "Split": _split, "Expand": _expand, "Tile": _tile,
    "Constant": _constant, "ConstantOfShape": _full, "Range": _range,
    "DepthToSpace": _depth_to_space, "SpaceToDepth": _space_to_depth,
}  # fmt: skip
