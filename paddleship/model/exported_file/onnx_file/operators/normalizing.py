"""Normalizations."""

from __future__ import annotations

from typing import Any

from paddleship.model.exported_file.onnx_file.node import Node
from paddleship.model.exported_file.onnx_file.operators import Writer
from paddleship.model.exported_file.onnx_file.values import Unsupported


def _batch(node: Node) -> Any:
    node.require_outputs()
    node.require("training_mode", 0)
    node.require("spatial", 1)
    x, scale, bias, mean, variance = node.tensors()
    return node.functional.batch_norm(x, mean, variance, scale, bias, training=False, epsilon=node.attribute("epsilon", 1e-5))


def _instance(node: Node) -> Any:
    return node.functional.instance_norm(node.tensor(0), weight=node.tensor(1), bias=node.tensor(2), eps=node.attribute("epsilon", 1e-5))


def _layer(node: Node) -> Any:
    node.require_outputs()
    x, scale, bias, epsilon = node.tensor(0), node.tensor(1), node.tensor(2), node.attribute("epsilon", 1e-5)
    axis = node.attribute("axis", -1) % len(x.shape)
    shape = list(x.shape[axis:])
    if all(size >= 0 for size in shape) and list(scale.shape) == shape and (bias is None or list(bias.shape) == shape):
        return node.functional.layer_norm(x, shape, scale, bias, epsilon)
    axes = list(range(axis, len(x.shape)))
    centred = x - node.paddle.mean(x, axis=axes, keepdim=True)
    variance = node.paddle.mean(centred * centred, axis=axes, keepdim=True)
    found = centred / node.paddle.sqrt(variance + node.full(epsilon, x)) * scale
    return found if bias is None else found + bias


def _group(node: Node) -> Any:
    x, scale, bias, groups = node.tensor(0), node.tensor(1), node.tensor(2), node.attribute("num_groups")
    if node.opset < 21:  # one for each group
        scale, bias = (node.paddle.repeat_interleave(one, x.shape[1] // groups) for one in (scale, bias))
    return node.functional.group_norm(x, groups, node.attribute("epsilon", 1e-5), scale, bias)


def _unit(node: Node) -> Any:
    order = node.attribute("p", 2)
    return node.tensor(0) / node.paddle.norm(node.tensor(0), p=order, axis=node.attribute("axis", -1), keepdim=True)


def _local_response(node: Node) -> Any:
    size = node.attribute("size")
    if size % 2 == 0:
        raise Unsupported(f"with the even size {size}")
    return node.functional.local_response_norm(
        node.tensor(0), size, alpha=node.attribute("alpha", 1e-4), beta=node.attribute("beta", 0.75), k=node.attribute("bias", 1.0)
    )


OPERATORS: dict[str, Writer] = {
    "BatchNormalization": _batch, "InstanceNormalization": _instance, "LayerNormalization": _layer, "GroupNormalization": _group,
    "LpNormalization": _unit, "LRN": _local_response,
}  # fmt: skip
