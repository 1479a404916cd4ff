"""Recurrent layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from paddleship.model.exported_file.onnx_file import values
from paddleship.model.exported_file.onnx_file.node import Node
from paddleship.model.exported_file.onnx_file.operators import Writer
from paddleship.model.exported_file.onnx_file.values import Array, Unsupported


@dataclass(frozen=True)
class _Kind:
    """`gates`: the index of ONNX's gate for each of Paddle's. `activations`: those that Paddle has, per direction, with Paddle's mode."""

    gates: tuple[int, ...]
    states: int
    modes: dict[tuple[str, ...], str]


_KINDS = {
    "LSTM": _Kind((0, 2, 3, 1), 2, {("sigmoid", "tanh", "tanh"): "LSTM"}),
    "GRU": _Kind((1, 0, 2), 1, {("sigmoid", "tanh"): "GRU"}),
    "RNN": _Kind((0,), 1, {("tanh",): "RNN_TANH", ("relu",): "RNN_RELU"}),
}


def _recurrent(node: Node) -> list[Any]:
    """[Y, Y_h, Y_c]: all results, of shape (length, directions, batch, hidden), and the last states."""
    kind, paddle = _KINDS[node.kind], node.paddle
    mode = _mode(node, kind)
    x, batch_first = node.tensor(0), bool(node.attribute("layout", 0))
    x = paddle.transpose(x, [1, 0, 2]) if batch_first else x
    weights = _weights(node, kind)
    count, hidden = weights[0].shape[0], weights[1].shape[2]
    reverse = node.attribute("direction", "forward") == "reverse"
    if reverse and node.has(4):
        raise Unsupported("backwards, with sequence_lens")
    x = paddle.flip(x, [0]) if reverse else x
    states = [_state(node, index, x, count, hidden, batch_first=batch_first) for index in (5, 6)[: kind.states]]
    results, last = _run(node, x, states, weights, mode)
    y = paddle.transpose(paddle.reshape(results, [0, 0, count, hidden]), [0, 2, 1, 3])
    y = paddle.flip(y, [0]) if reverse else y
    if batch_first:
        y, last = paddle.transpose(y, [2, 0, 1, 3]), [paddle.transpose(one, [1, 0, 2]) for one in last]
    return [y, *last]


def _mode(node: Node, kind: _Kind) -> str:
    """Paddle's name for the layer. Raises Unsupported for one that Paddle does not have."""
    each = next(iter(kind.modes))
    directions = 2 if node.attribute("direction", "forward") == "bidirectional" else 1
    named = [name.decode().lower() for name in node.attribute("activations") or []] or list(each) * directions
    parts = {tuple(named[start : start + len(each)]) for start in range(0, len(named), len(each))}
    mode = kind.modes.get(parts.pop()) if len(parts) == 1 else None
    if mode is None:
        raise Unsupported(f"with the activations {', '.join(named)}")
    if node.attribute("clip") or node.attribute("input_forget", 0) or node.has(7):
        raise Unsupported("with clip, input_forget or peepholes")
    if node.kind == "GRU" and not node.attribute("linear_before_reset", 0):
        raise Unsupported("with linear_before_reset 0")
    return mode


def _weights(node: Node, kind: _Kind) -> list[Array]:
    """[W, R, the biases of both], each with a first dimension of directions, with Paddle's order of gates."""
    inputs, recurrent, bias = (node.known(index) for index in (1, 2, 3))
    if inputs is None or recurrent is None:
        raise Unsupported("without weights")
    rows = np.concatenate([np.arange(recurrent.shape[2]) + gate * recurrent.shape[2] for gate in kind.gates])
    if bias is None:
        bias = np.zeros((len(inputs), 2 * len(rows)), inputs.dtype)
    first, second = np.split(bias, 2, axis=1)
    return [inputs[:, rows], recurrent[:, rows], first[:, rows], second[:, rows]]


def _state(node: Node, index: int, x: Any, count: int, hidden: int, *, batch_first: bool) -> Any:
    """A first state, of shape (directions, batch, hidden)."""
    batch = values.sizes_of(x)[1]
    if node.has(index):
        given = node.tensor(index)
        given = node.paddle.transpose(given, [1, 0, 2]) if batch_first else given
        return node.paddle.expand(given, [count, batch, hidden]) if node.one_row and given.shape[1] == 1 else given
    return node.paddle.full([count, batch, hidden], 0, x.dtype)


def _run(node: Node, x: Any, states: list[Any], weights: list[Array], mode: str) -> tuple[Any, list[Any]]:
    title = node.outputs[0] or node.outputs[-1]
    count = len(weights[0])
    names = ("input", "recurrent", "input_bias", "recurrent_bias")
    parts = [[node.made(one[index], f"{title}/{name}_{index}") for name, one in zip(names, weights, strict=True)] for index in range(count)]
    ordered = [part for one in parts for part in one[:2]] + [part for one in parts for part in one[2:]]
    lengths = node.paddle.cast(node.tensor(4), "int32") if node.has(4) else None
    results, _, last = node.paddle._C_ops.rnn(
        x, states, ordered, lengths, node.paddle.full([1], 0, "uint8"), 0.0, count == 2, weights[0].shape[2], weights[1].shape[2], 1,
        mode, 0, True,
    )  # fmt: skip
    return results, list(last)


OPERATORS: dict[str, Writer] = dict.fromkeys(_KINDS, _recurrent)
