"""Operators whose window slides over a picture: convolutions and pools."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddleship.model.exported_file.onnx_file.node import Node
from paddleship.model.exported_file.onnx_file.operators import Writer
from paddleship.model.exported_file.onnx_file.operators.slicing import padded
from paddleship.model.exported_file.onnx_file.values import Unsupported

Pads = list[tuple[int, int]]  # before and after, for each dimension of the picture


def _per_dimension(node: Node, name: str, rank: int) -> list[int]:
    return node.ints(name) or [1] * rank


def _pads(node: Node, x: Any, kernel: list[int]) -> Pads:
    """The numbers of elements that are added to each dimension."""
    rank = len(kernel)
    how = node.attribute("auto_pad", "NOTSET")
    if how in ("NOTSET", ""):
        pads = node.ints("pads") or [0] * (2 * rank)
        return list(zip(pads[:rank], pads[rank:], strict=True))
    if how == "VALID":
        return [(0, 0)] * rank
    strides, dilations = _per_dimension(node, "strides", rank), _per_dimension(node, "dilations", rank)
    both = [
        _same(size, stride, dilation * (width - 1) + 1)
        for size, stride, dilation, width in zip(x.shape[2:], strides, dilations, kernel, strict=True)
    ]
    return [(total // 2, total - total // 2) if how == "SAME_UPPER" else (total - total // 2, total // 2) for total in both]


def _same(size: int, stride: int, width: int) -> int:
    """The elements to add so that there are as many windows as steps."""
    if size < 0:
        if stride == 1:
            return width - 1
        raise Unsupported("with auto_pad along a dynamic dimension")
    return max(0, (-(-size // stride) - 1) * stride + width - size)


def _symmetric(pads: Pads) -> list[int] | None:
    return [before for before, _ in pads] if all(before == after for before, after in pads) else None


def _spatial(pads: Pads) -> dict[int, tuple[int, int]]:
    return {axis + 2: pair for axis, pair in enumerate(pads)}


def _require_picture(rank: int) -> None:
    if rank not in (1, 2, 3):
        raise Unsupported(f"over {rank} dimensions")


def _convolution(node: Node) -> Any:
    x, weight = node.tensor(0), node.tensor(1)
    kernel = list(weight.shape[2:])
    rank, pads = len(kernel), _pads(node, x, kernel)
    _require_picture(rank)
    even = _symmetric(pads)
    if even is None:
        x, even = padded(node, x, _spatial(pads)), [0] * rank
    return getattr(node.functional, f"conv{rank}d")(
        x, weight, node.tensor(2), stride=_per_dimension(node, "strides", rank), padding=even,
        dilation=_per_dimension(node, "dilations", rank), groups=node.attribute("group", 1),
    )  # fmt: skip


def _transposed(node: Node) -> Any:
    x, weight = node.tensor(0), node.tensor(1)
    kernel = list(weight.shape[2:])
    rank = len(kernel)
    _require_picture(rank)
    strides, dilations = _per_dimension(node, "strides", rank), _per_dimension(node, "dilations", rank)
    extra = node.ints("output_padding") or [0] * rank
    pads = _transposed_pads(node, x, [(d * (k - 1) + 1, s, e) for d, k, s, e in zip(dilations, kernel, strides, extra, strict=True)])
    even = _symmetric(pads)
    if even is not None and all(one < stride for one, stride in zip(extra, strides, strict=True)):
        return _transpose(node, x, weight, even, extra, rank)
    whole = padded(node, _transpose(node, x, weight, [0] * rank, [0] * rank, rank), {axis + 2: (0, one) for axis, one in enumerate(extra)})
    if node.has(2) and any(extra):
        raise Unsupported("with output_padding, a bias and uneven pads")
    return padded(node, whole, {axis: (-before, -after) for axis, (before, after) in _spatial(pads).items()})


def _transpose(node: Node, x: Any, weight: Any, pads: list[int], extra: list[int], rank: int) -> Any:
    return getattr(node.functional, f"conv{rank}d_transpose")(
        x, weight, node.tensor(2), stride=_per_dimension(node, "strides", rank), padding=pads, output_padding=extra,
        dilation=_per_dimension(node, "dilations", rank), groups=node.attribute("group", 1),
    )  # fmt: skip


def _transposed_pads(node: Node, x: Any, windows: list[tuple[int, int, int]]) -> Pads:
    """The elements to remove from each dimension of the result; each window has its width, its stride and the output padding."""
    shape, how = node.ints("output_shape"), node.attribute("auto_pad", "NOTSET")
    if shape is None and how in ("NOTSET", "", "VALID"):
        return _pads(node, x, [0] * len(windows))
    totals = []
    for axis, (width, stride, extra) in enumerate(windows):
        size = x.shape[2 + axis]
        if size < 0:
            raise Unsupported("with output_shape or auto_pad along a dynamic dimension")
        wanted = shape[-len(windows) :][axis] if shape else size * stride
        totals.append(stride * (size - 1) + extra + width - wanted)
    return [(total // 2, total - total // 2) if how == "SAME_UPPER" else (total - total // 2, total // 2) for total in totals]


def _max_pool(node: Node) -> Any:
    node.require_outputs()
    x, kernel = node.tensor(0), node.ints("kernel_shape") or []
    rank, pads = len(kernel), _pads(node, x, kernel)
    _require_picture(rank)
    node.require("storage_order", 0, 1)
    if any(size != 1 for size in _per_dimension(node, "dilations", rank)):
        raise Unsupported("with dilations")
    even = _symmetric(pads)
    if even is None or any(2 * pad > width for pad, width in zip(even, kernel, strict=True)):
        x, even = padded(node, x, _spatial(pads), number=-np.inf), [0] * rank
    strides, ceil = _per_dimension(node, "strides", rank), bool(node.attribute("ceil_mode", 0))
    if ceil and any(stride > width - pad for stride, width, pad in zip(strides, kernel, even, strict=True)):
        raise Unsupported("with ceil_mode and windows that may start after the picture")
    return getattr(node.functional, f"max_pool{rank}d")(x, kernel, stride=strides, padding=even, ceil_mode=ceil)


def _average_pool(node: Node) -> Any:
    x, kernel = node.tensor(0), node.ints("kernel_shape") or []
    rank, pads = len(kernel), _pads(node, x, kernel)
    _require_picture(rank)
    if any(size != 1 for size in _per_dimension(node, "dilations", rank)):
        raise Unsupported("with dilations")
    count_all, even, ceil = bool(node.attribute("count_include_pad", 0)), _symmetric(pads), bool(node.attribute("ceil_mode", 0))
    if ceil and count_all and any(sum(pair) for pair in pads):
        raise Unsupported("with ceil_mode and count_include_pad")
    if even is None or any(2 * pad > width for pad, width in zip(even, kernel, strict=True)):
        if not count_all:
            return _uneven_average(node, x, kernel, pads)
        x, even = padded(node, x, _spatial(pads)), [0] * rank
    return _averaged(node, x, kernel, even, exclusive=not count_all, ceil=ceil)


def _uneven_average(node: Node, x: Any, kernel: list[int], pads: Pads) -> Any:
    """The mean over the elements of each window that are in the picture."""
    ones = node.paddle.ones_like(x)
    rank, ceil = len(kernel), bool(node.attribute("ceil_mode", 0))
    sums, counts = (_averaged(node, padded(node, one, _spatial(pads)), kernel, [0] * rank, exclusive=False, ceil=ceil) for one in (x, ones))
    return sums / counts


def _averaged(node: Node, x: Any, kernel: list[int], pads: list[int], *, exclusive: bool, ceil: bool) -> Any:
    return getattr(node.functional, f"avg_pool{len(kernel)}d")(
        x, kernel, stride=_per_dimension(node, "strides", len(kernel)), padding=pads, exclusive=exclusive, ceil_mode=ceil
    )


def _global(name: str) -> Writer:
    def write(node: Node) -> Any:
        x = node.tensor(0)
        return getattr(node.paddle, name)(x, axis=list(range(2, len(x.shape))), keepdim=True)

    return write


def _global_average(node: Node) -> Any:
    x = node.tensor(0)
    if len(x.shape) == 4:
        return node.functional.adaptive_avg_pool2d(x, 1)
    return node.paddle.mean(x, axis=list(range(2, len(x.shape))), keepdim=True)


OPERATORS: dict[str, Writer] = {
    "Conv": _convolution, "ConvTranspose": _transposed, "MaxPool": _max_pool, "AveragePool": _average_pool,
    "GlobalAveragePool": _global_average, "GlobalMaxPool": _global("max"),
}  # fmt: skip
