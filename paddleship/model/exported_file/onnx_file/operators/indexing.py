"""Operators that take or put elements by their indices."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddleship.model.exported_file.onnx_file import values
from paddleship.model.exported_file.onnx_file.node import Node
from paddleship.model.exported_file.onnx_file.operators import Writer
from paddleship.model.exported_file.onnx_file.operators.shaping import reshaped
from paddleship.model.exported_file.onnx_file.values import Sizes, Unsupported, Value


def _gather(node: Node) -> Value:
    value, indices, axis = node.value(0), node.value(1), node.attribute("axis", 0)
    if isinstance(value, Sizes) and values.is_known(indices) and indices.ndim <= 1:
        return Sizes(tuple(value.items[int(index)] for index in indices.reshape(-1)), indices.ndim == 0, value.dtype)
    x = node.tensor(0)
    axis %= len(x.shape)
    if values.is_known(indices) and indices.size == 1:
        return _element(node, x, axis, indices)
    return _gathered(node, x, axis, node.tensor(1))


def _element(node: Node, x: Any, axis: int, index: np.ndarray[Any, Any]) -> Any:
    """One element along a dimension, which stays only if the index has dimensions."""
    (start,) = index.reshape(-1).tolist()
    taken = node.paddle.slice(x, [axis], [start], [start + 1 if start != -1 else 2**31 - 1])
    return node.paddle.squeeze(taken, [axis]) if index.ndim == 0 else node.paddle.unsqueeze(taken, [axis] * (index.ndim - 1))


def _gathered(node: Node, x: Any, axis: int, indices: Any) -> Any:
    """Elements along a dimension. Paddle's gather and gather_nd take indices that count from the end; its embedding does not."""
    rank = len(indices.shape)
    if rank == 1:
        return node.paddle.gather(x, indices, axis=axis)
    if rank == 0:
        return node.paddle.squeeze(node.paddle.gather(x, node.paddle.reshape(indices, [1]), axis=axis), [axis])
    if axis == 0:
        return node.paddle.gather_nd(x, node.paddle.unsqueeze(indices, [-1]))
    sizes = values.sizes_of(x)
    flat = node.paddle.gather(x, node.paddle.reshape(indices, [-1]), axis=axis)
    return reshaped(node, flat, [*sizes[:axis], *values.sizes_of(indices), *sizes[axis + 1 :]])


def _gather_elements(node: Node) -> Any:
    x, axis = node.tensor(0), node.attribute("axis", 0)
    return node.paddle.take_along_axis(x, _from_start(node, x, node.tensor(1), axis), axis, broadcast=False)


def _from_start(node: Node, x: Any, indices: Any, axis: int) -> Any:
    """Indices of which none counts from the end."""
    size = values.sizes_of(x)[axis]
    length = node.paddle.full([], size, indices.dtype) if isinstance(size, int) else node.paddle.cast(size, indices.dtype)
    return node.paddle.where(indices < node.full(0, indices), indices + length, indices)


def _gather_nd(node: Node) -> Any:
    if node.attribute("batch_dims", 0):
        raise Unsupported(f"with batch_dims {node.attribute('batch_dims')}")
    return node.paddle.gather_nd(node.tensor(0), node.tensor(1))


_REDUCTIONS = {"none": "assign", "add": "add", "mul": "multiply", "max": "amax", "min": "amin"}


def _scatter_elements(node: Node) -> Any:
    x, axis = node.tensor(0), node.attribute("axis", 0)
    how = _REDUCTIONS[node.attribute("reduction", "none")]
    indices = _from_start(node, x, node.tensor(1), axis)
    return node.paddle.put_along_axis(x, indices, node.tensor(2), axis, reduce=how, broadcast=False)


def _scatter_nd(node: Node) -> Any:
    x, indices, updates = node.tensors()
    how = node.attribute("reduction", "none")
    if how == "add":
        return node.paddle.scatter_nd_add(x, indices, updates)
    if how != "none":
        raise Unsupported(f"with reduction {how!r}")
    zeros, ones = node.paddle.zeros(values.sizes_of(x), "float32"), node.paddle.ones_like(node.paddle.cast(updates, "float32"))
    changed = node.paddle.scatter_nd_add(zeros, indices, ones) > node.full(0, zeros)
    return node.paddle.where(changed, node.paddle.scatter_nd_add(node.paddle.zeros_like(x), indices, updates), x)


def _one_hot(node: Node) -> Any:
    indices, (count,), pair = node.tensor(0), node.sizes(1).items, node.tensor(2)
    axis = node.attribute("axis", -1)
    rank = len(indices.shape) + 1
    if not isinstance(count, int):
        raise Unsupported("with a calculated depth")
    whole = node.paddle.cast(indices, "int64")
    whole = node.paddle.where(whole < node.full(0, whole), whole + node.full(count, whole), whole)
    numbers = node.paddle.arange(0, count, 1, dtype="int64")
    hot = node.paddle.equal(node.paddle.unsqueeze(whole, [-1]), numbers)
    order = list(range(rank - 1))
    order.insert(axis % rank, rank - 1)
    off, on = pair[0], pair[1]
    return node.paddle.where(node.paddle.transpose(hot, order), *(node.paddle.reshape(one, [1] * rank) for one in (on, off)))


def _nonzero(node: Node) -> Any:
    return node.paddle.transpose(node.paddle.nonzero(node.tensor(0)), [1, 0])


def _triangle(node: Node) -> Any:
    upper = node.attribute("upper", 1)
    diagonal = int(node.number("k", 1, 0) or 0)
    x = node.tensor(0)
    kind = values.name_of(x.dtype)
    whole = node.paddle.cast(x, "int32") if kind == "bool" else x
    found = (node.paddle.triu if upper else node.paddle.tril)(whole, diagonal)
    return node.paddle.cast(found, kind) if kind == "bool" else found


def _eye(node: Node) -> Any:
    x = node.tensor(0)
    kind = node.attribute("dtype")
    dtype = values.name_of_type(kind) if kind else values.name_of(x.dtype)
    if any(size < 0 for size in x.shape):
        raise Unsupported("of a dynamic shape")
    rows, columns = x.shape
    return node.paddle.assign(np.eye(rows, columns, k=node.attribute("k", 0)).astype(dtype))


OPERATORS: dict[str, Writer] = {
    "Gather": _gather, "GatherElements": _gather_elements, "GatherND": _gather_nd, "ScatterElements": _scatter_elements,
    "Scatter": _scatter_elements, "ScatterND": _scatter_nd, "OneHot": _one_hot, "NonZero": _nonzero, "Trilu": _triangle, "EyeLike": _eye,
}  # fmt: skip
