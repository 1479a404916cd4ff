"""Restore what paddle2onnx 2.1 drops from recurrent layers: the lengths of rows, and the states of all layers of a stack except the last.

The program does not show which ONNX value holds the lengths. So before the conversion the layer's input is raised to the power of the
lengths, so that they become part of the graph. Afterwards the power is removed, and all layers of the stack get the lengths.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paddleship.conversion import pir
from paddleship.conversion.pir import Operator, Writer

_LAYERS = frozenset({"LSTM", "GRU", "RNN"})
_INNER = "helper."  # prefix of paddle2onnx's values between the layers of a stack


def mark(rnn: Operator, writer: Writer) -> None:
    """Raise the input of an rnn with lengths to the power of the lengths."""
    values, _states, _weights, lengths, *_others = rnn["I"]
    if lengths["%"] not in writer.types:
        return
    kind = writer.types[values["%"]]
    element, (_, shape, *others) = kind["D"][0], writer.types[lengths["%"]]["D"]
    flat, column = ({"#": pir.TENSOR, "D": [element, sizes, *others]} for sizes in (shape, [*shape, 1]))
    exponents = writer.add("1.unsqueeze", [writer.cast(lengths, flat), writer.axes([1])], column)
    rnn["I"][0] = writer.add("1.elementwise_pow", [values, exponents], kind)


def fix(graph: Any) -> None:
    """Pass the marked lengths to the layers of each marked stack, remove the marks, and return the states of every layer."""
    makers = {output: node for node in graph.node for output in node.output}
    stacks: dict[str, list[Any]] = {}  # by the output of the highest layer so far
    states: dict[str, list[str]] = {}
    marks, nodes = set(), list(graph.node)
    del graph.node[:]
    for node in nodes:
        if node.op_type in _LAYERS:
            stack = stacks[node.output[0]] = [*stacks.get(_below(node.input[0], makers), []), node]
            states |= {
                state: [layer.output[index] for layer in stack] for index, state in enumerate(node.output) if index and len(stack) > 1
            }
            if (mark := _made(node.input[0], makers)) is not None and mark.op_type == "Pow":
                graph.node.append(_counted(mark, makers, name := f"{node.output[0]}.lengths"))
                node.input[0], node.input[4] = mark.input[0], name
                marks.add(mark.output[0])
            elif len(stack) > 1:
                node.input[4] = stack[0].input[4]
        graph.node.append(_all(node, states))
    for unused in [node for node in graph.node if node.output[0] in marks or set(node.input) & marks]:
        graph.node.remove(unused)


def _all(node: Any, states: Mapping[str, list[str]]) -> Any:
    """The node; if it returns only the last layer's state, a node that returns the states of the whole stack."""
    from onnx import helper

    if node.op_type != "Identity" or node.input[0] not in states:
        return node
    return helper.make_node("Concat", states[node.input[0]], list(node.output), axis=0)


def _counted(mark: Any, makers: Mapping[str, Any], name: str) -> Any:
    """A node that converts the lengths of a mark to integers."""
    from onnx import TensorProto, helper

    column = _made(mark.input[1], makers)
    return helper.make_node("Cast", [_made(column.input[0], makers).input[0]], [name], to=TensorProto.INT32)


def _made(name: str, makers: Mapping[str, Any]) -> Any:
    """The node that makes a value, also if the value was renamed; None for an input of the graph."""
    node = makers.get(name)
    while node is not None and node.op_type == "Identity":
        node = makers.get(node.input[0])
    return node


def _below(name: str, makers: Mapping[str, Any]) -> str:
    """The output of the layer of the same stack that feeds a layer."""
    return next((below for below in _back(name, makers) if makers[below].op_type in _LAYERS), "")


def _back(name: str, makers: Mapping[str, Any]) -> Iterator[str]:
    inner = name.startswith(_INNER)
    while inner and name in makers:
        yield name
        if makers[name].op_type in _LAYERS:
            return
        name = makers[name].input[0]
