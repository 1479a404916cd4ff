"""Operators that reduce dimensions, sort, or accumulate along one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from paddleship.model.exported_file.onnx_file import values
from paddleship.model.exported_file.onnx_file.node import Node
from paddleship.model.exported_file.onnx_file.operators import Writer
from paddleship.model.exported_file.onnx_file.values import Unsupported

Reduce = Callable[[Any, Any, Any, bool], Any]  # paddle, the tensor, its axes (None: all) and whether they stay with size 1


def _reduction(reduce: Reduce) -> Writer:
    def write(node: Node) -> Any:
        x, axes, keep = node.tensor(0), node.ints("axes", 1), bool(node.attribute("keepdims", 1))
        if not axes and node.attribute("noop_with_empty_axes", 0):
            return reduce(node.paddle, node.paddle.unsqueeze(x, [0]), [0], False)
        reduced = reduce(node.paddle, x, axes or None, keep)
        return reduced if reduced.dtype == x.dtype else node.paddle.cast(reduced, x.dtype)

    return write


def _named(name: str) -> Reduce:
    return lambda paddle, x, axes, keep: getattr(paddle, name)(x, axis=axes, keepdim=keep)


def _product(paddle: Any, x: Any, axes: Any, keep: bool) -> Any:
    return paddle.prod(x, axis=axes if axes is None or len(axes) > 1 else axes[0], keepdim=keep)


def _extreme(integer: str, truth: str) -> Reduce:
    def reduce(paddle: Any, x: Any, axes: Any, keep: bool) -> Any:
        return getattr(paddle, truth if values.name_of(x.dtype) == "bool" else integer)(x, axis=axes, keepdim=keep)

    return reduce


def _mean(paddle: Any, x: Any, axes: Any, keep: bool) -> Any:
    return paddle.mean(x if "float" in values.name_of(x.dtype) else paddle.cast(x, "float64"), axis=axes, keepdim=keep)


def _sum_of(change: str) -> Reduce:
    return lambda paddle, x, axes, keep: paddle.sum(getattr(paddle, change)(x), axis=axes, keepdim=keep)


def _norm(paddle: Any, x: Any, axes: Any, keep: bool) -> Any:
    real = x if "float" in values.name_of(x.dtype) else paddle.cast(x, "float64")
    return paddle.sqrt(paddle.sum(paddle.square(real), axis=axes, keepdim=keep))


def _log_sum(paddle: Any, x: Any, axes: Any, keep: bool) -> Any:
    return paddle.log(paddle.sum(x, axis=axes, keepdim=keep))


def _index_of(name: str) -> Writer:
    def write(node: Node) -> Any:
        x, axis, keep = node.tensor(0), node.attribute("axis", 0), bool(node.attribute("keepdims", 1))
        if not node.attribute("select_last_index", 0):
            return getattr(node.paddle, name)(x, axis=axis, keepdim=keep)
        last = getattr(node.paddle, name)(node.paddle.flip(x, [axis]), axis=axis, keepdim=keep)
        return values.sizes_of(x)[axis] - 1 - last

    return write


def _top(node: Node) -> list[Any]:
    """Of equal values the first comes first, as ONNX says: Paddle's topk takes any of them."""
    x, axis = node.tensor(0), node.attribute("axis", -1)
    (count,) = node.ints("k") or node.sizes(1).items
    order = node.paddle.argsort(x, axis=axis, descending=bool(node.attribute("largest", 1)), stable=True)
    indices = node.paddle.gather(order, node.paddle.arange(count), axis=axis)
    return [node.paddle.take_along_axis(x, indices, axis, broadcast=False), indices]


def _accumulated(node: Node) -> Any:
    x, axis = node.tensor(0), int(node.known(1).reshape(-1)[0])  # type: ignore[union-attr]
    backwards = [axis] if node.attribute("reverse", 0) else []
    ordered = node.paddle.flip(x, backwards) if backwards else x
    found = node.paddle.cumsum(ordered, axis=axis)
    if node.attribute("exclusive", 0):
        found = found - ordered
    return node.paddle.flip(found, backwards) if backwards else found


def _softmax(function: Callable[[Any, Any, int], Any]) -> Writer:
    def write(node: Node) -> Any:
        x, axis = node.tensor(0), node.attribute("axis", -1 if node.opset >= 13 else 1)
        rank = len(x.shape)
        if node.opset >= 13 or axis % rank == rank - 1:
            return function(node.paddle, x, axis)
        flat = node.paddle.flatten(x, axis % rank, -1)  # before opset 13 the dimensions from `axis` on are one
        return node.paddle.reshape(function(node.paddle, flat, -1), _with_one_unknown(x, axis % rank))

    return write


def _probabilities(paddle: Any, x: Any, axis: int) -> Any:
    return paddle.nn.functional.softmax(x, axis=axis)


def _log_probabilities(paddle: Any, x: Any, axis: int) -> Any:
    """Without Paddle's log_softmax, which stops at 64 below the largest value, and its logsumexp, which OpenVINO misreads."""
    below = x - paddle.max(x, axis=axis, keepdim=True)
    return below - paddle.log(paddle.sum(paddle.exp(below), axis=axis, keepdim=True))


def _with_one_unknown(x: Any, axis: int) -> list[Any]:
    """The shape of a tensor for Paddle's reshape: sizes before the axis are copied."""
    return [0] * axis + values.sizes_of(x)[axis:]


def _hardmax(node: Node) -> Any:
    x, axis = node.tensor(0), node.attribute("axis", -1 if node.opset >= 13 else 1)
    if node.opset < 13 and axis % len(x.shape) != len(x.shape) - 1:
        raise Unsupported(f"with axis {axis}")
    size = values.sizes_of(x)[axis]
    if not isinstance(size, int):
        raise Unsupported("over a dynamic dimension")
    hot = node.functional.one_hot(node.paddle.argmax(x, axis=axis), size)
    order = list(range(len(x.shape) - 1))
    order.insert(axis % len(x.shape), len(x.shape) - 1)
    return node.paddle.cast(node.paddle.transpose(hot, order), x.dtype)


OPERATORS: dict[str, Writer] = {
    "ReduceSum": _reduction(_named("sum")), "ReduceMean": _reduction(_mean), "ReduceProd": _reduction(_product),
    "ReduceMax": _reduction(_extreme("max", "any")), "ReduceMin": _reduction(_extreme("min", "all")),
    "ReduceL1": _reduction(_sum_of("abs")), "ReduceL2": _reduction(_norm), "ReduceSumSquare": _reduction(_sum_of("square")),
    "ReduceLogSum": _reduction(_log_sum), "ReduceLogSumExp": _reduction(_named("logsumexp")),
    "ArgMax": _index_of("argmax"), "ArgMin": _index_of("argmin"), "TopK": _top, "CumSum": _accumulated,
    "Softmax": _softmax(_probabilities), "LogSoftmax": _softmax(_log_probabilities), "Hardmax": _hardmax,
}  # fmt: skip
