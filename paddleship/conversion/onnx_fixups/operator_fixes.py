"""Fixes for conversion errors of paddle2onnx 2.1, in Paddle's program before the conversion and in the ONNX graph after it.

* It reads doubles of Paddle's file (a slope, an epsilon, a padding value) as floats, with wrong values; a list of doubles (the
  scale of an interpolation) crashes it.
* It ignores the bounds of hardtanh and gelu(approximate=True), and does not know masked_fill, amax, amin and group_norm of sequences.
* It ignores the lengths of recurrent layers, and the states of all layers of a stack except the last.
* It crashes on a mean over every axis, and on a value that a loop passes on unchanged.
* It names a loop variable like its initial value: a body that uses both reads one of them twice.
* It makes conditions vectors with one element; ONNX needs scalars.
* It crashes on channels-last layouts, or treats channels as positions.
* It ignores the number of groups of offsets in a deformable convolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from paddleship.conversion import pir
from paddleship.conversion.onnx_fixups import channels_last, recurrent
from paddleship.conversion.pir import Operator, Writer


def before(program: Mapping[str, Any]) -> None:
    """Change a program of Paddle into an equivalent one that paddle2onnx converts correctly."""
    writer = Writer(program)
    for block in list(pir.blocks(program)):
        writer.operators = []
        for operator in (part for whole in block["ops"] for part in channels_last.put_first(whole, writer)):
            if not operator["#"].startswith("1.full"):  # it reads these as doubles
                _in_single_precision(operator)
            if fix := _FIXES.get(operator["#"]):
                fix(operator, writer)
            writer.operators.append(operator)
        block["ops"] = writer.operators


def after(graph: Any) -> None:
    """Change an ONNX graph of paddle2onnx so that its loops and branches are valid ONNX."""
    from onnx import AttributeProto

    recurrent.fix(graph)
    nodes = list(graph.node)
    del graph.node[:]
    for node in nodes:
        bodies = [attribute.g for attribute in node.attribute if attribute.type == AttributeProto.GRAPH]
        for body in bodies:
            after(body)
        if node.op_type == "If":
            node.input[0] = _scalar(graph, node.input[0], f"{node.name}.condition")
        if node.op_type == "Loop":
            node.input[1] = _scalar(graph, node.input[1], f"{node.name}.condition")
            _define_body(bodies[0], node.name)
        _forget_shapes(value for body in bodies for value in (*body.input[2:], *body.output))
        graph.node.append(node)


def give_offset_groups(model: Any) -> None:
    """Set the number of offset groups of each DeformConv: two channels of offsets for each position of the kernel."""
    from onnx import helper, shape_inference

    waiting = [node for node in model.graph.node if node.op_type == "DeformConv"]
    if not waiting:
        return
    graph = shape_inference.infer_shapes(model).graph
    shapes = {value.name: [size.dim_value for size in value.type.tensor_type.shape.dim] for value in [*graph.value_info, *graph.input]}
    shapes |= {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    for node in waiting:
        _, weight, offsets = (shapes.get(name, []) for name in node.input[:3])
        if len(weight) == len(offsets) == 4 and offsets[1]:
            node.attribute.append(helper.make_attribute("offset_group", offsets[1] // (2 * weight[2] * weight[3])))


def _in_single_precision(operator: Operator) -> None:
    for attribute in operator["A"]:
        if isinstance(attribute, dict):
            values = attribute["AT"]["D"] if attribute["AT"]["#"] == "0.a_array" else [attribute["AT"]]
            for value in values:
                value["#"] = value["#"].replace("0.a_f64", "0.a_f32")


def _copy_inputs(operator: Operator, writer: Writer) -> None:
    tensors = (writer.types[value["%"]]["#"] == pir.TENSOR for value in operator["I"])
    operator["I"] = [writer.copied(value) if tensor else value for value, tensor in zip(operator["I"], tensors, strict=True)]


def _name_every_axis(mean: Operator, writer: Writer) -> None:
    values, axes = mean["I"]
    if writer.types[axes["%"]]["D"][1] == [0]:  # no axes means all axes
        mean["I"] = [values, writer.axes(range(len(writer.types[values["%"]]["D"][1])))]


def _as_max(operator: Operator, writer: Writer) -> None:
    operator["I"].append(writer.axes([axis["D"] for axis in pir.attribute(operator, "axis")]))
    operator["A"] = [attribute for attribute in operator["A"] if attribute["N"] != "axis"]
    operator["#"] = {"1.amax": "1.max", "1.amin": "1.min"}[operator["#"]]


def _as_where(masked_fill: Operator, _writer: Writer) -> None:
    values, mask, fill = masked_fill["I"]
    masked_fill |= {"#": "1.where", "I": [mask, fill, values]}


def _as_clip(hardtanh: Operator, writer: Writer) -> None:
    (values,) = hardtanh["I"]
    bounds = [writer.number(pir.attribute(hardtanh, name), values) for name in ("t_min", "t_max")]
    hardtanh |= {"#": "1.clip", "A": [], "I": [values, *bounds]}


def _as_pictures(group_norm: Operator, writer: Writer) -> None:
    """Treat a sequence as a picture with one column."""
    values, *parameters = group_norm["I"]
    element, shape, *others = writer.types[values["%"]]["D"]
    if len(shape) != 3:
        return
    columns, picture = writer.axes([3]), {"#": pir.TENSOR, "D": [element, [*shape, 1], *others]}
    normal, *moments = group_norm["O"]
    inner = {**group_norm, "I": [writer.add("1.unsqueeze", [values, columns], picture), *parameters]}
    result = writer.new(picture)
    writer.operators.append(inner | {"O": [result | {"TT": picture}, *moments]})
    group_norm |= {"#": "1.squeeze", "A": [], "I": [result, columns], "O": [normal], "OA": [pir.CONSTANT]}


def _by_tanh(gelu: Operator, writer: Writer) -> None:
    """x / 2 × (1 + tanh(√(2 / π) × (x + 0.044715 x³)))."""
    if not pir.attribute(gelu, "approximate"):
        return
    (x,) = gelu["I"]
    kind, slope = writer.types[x["%"]], math.sqrt(2 / math.pi)
    factor = writer.scaled(writer.add("1.multiply", [x, x], kind), slope * 0.044715, slope)
    half = writer.scaled(writer.add("1.tanh", [writer.add("1.multiply", [x, factor], kind)], kind), 0.5, 0.5)
    gelu |= {"#": "1.multiply", "A": [], "I": [x, half]}


def _scalar(graph: Any, vector: str, name: str) -> str:
    """Add a node that makes a scalar named `name` of a vector with one element."""
    from onnx import TensorProto, helper

    none = helper.make_tensor("none", TensorProto.INT64, [0], [])
    graph.node.append(helper.make_node("Constant", [], [f"{name}.shape"], value=none))
    graph.node.append(helper.make_node("Reshape", [vector, f"{name}.shape"], [name]))
    return name


def _define_body(body: Any, loop: str) -> None:
    """Give the inputs of a loop's body unique names, and make its two conditions and its counter scalars."""
    _rename(body, {value.name: f"{loop}.{value.name}" for value in body.input})
    body.output[0].name = _scalar(body, body.output[0].name, f"{loop}.again")
    for value in body.input[:2]:
        value.type.tensor_type.shape.ClearField("dim")


def _forget_shapes(values: Iterable[Any]) -> None:
    """Remove the shapes of the inputs and outputs of bodies: they may change, and a scalar may be a vector with one element."""
    for value in values:
        shape = value.type.tensor_type.shape
        if len(shape.dim) < 2:
            value.type.tensor_type.ClearField("shape")
        for size in shape.dim:
            size.Clear()


def _rename(graph: Any, names: Mapping[str, str]) -> None:
    for value in graph.input:
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        for attribute in node.attribute:
            _rename(attribute.g, names)


_FIXES: dict[str, Callable[[Operator, Writer], None]] = {
    "1.while": _copy_inputs,
    "2.yield": _copy_inputs,
    "1.mean": _name_every_axis,
    "1.amax": _as_max,
    "1.amin": _as_max,
    "1.masked_fill": _as_where,
    "1.hardtanh": _as_clip,
    "1.group_norm": _as_pictures,
    "1.gelu": _by_tanh,
    "1.rnn": recurrent.mark,
}
