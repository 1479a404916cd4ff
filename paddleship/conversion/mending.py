"""What paddle2onnx 2.1 gets wrong, put right in the program that it is given and in the ONNX graph that it made.

* It reads the doubles of Paddle's file (a slope, an epsilon, what padding is filled with) as floats, and gets others.
* It dies of a mean over every axis, and of a value that a loop hands on untouched.
* It calls what a loop carries by the name of its initial value: a body that uses both reads one of them twice.
* It makes conditions vectors of one, where ONNX wants scalars.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

# Of Paddle's model.json: operators "#", each with attributes A, inputs I and outputs O. A value has a number % and a type TT.
Block = dict[str, Any]
_TENSOR = "0.t_dtensor"
_KINDS = {"i": "int", "ui": "uint", "f": "float", "bf": "bfloat"}
_DTYPES = {"0.t_bool": "bool"} | {f"0.t_{short}{bits}": f"{kind}{bits}" for short, kind in _KINDS.items() for bits in (8, 16, 32, 64)}
_COPIED = ("1.while", "2.yield")  # what takes values into a loop, and what hands them out of a body


def before(program: Mapping[str, Any]) -> None:
    """Change a program of Paddle's into one that means the same and that paddle2onnx gets right."""
    blocks = list(_blocks(program))
    types = {value["%"]: value["TT"] for block in blocks for value in _values(block)}
    for block in blocks:
        operators = []
        for operator in block["ops"]:
            if operator["#"] != "1.full":
                _in_single_precision(operator)
            if operator["#"] == "1.mean":
                operators += _every_axis(operator["I"], types)
            if operator["#"] in _COPIED:
                operators += [_copy(operand, types) for operand in operator["I"] if types[operand["%"]]["#"] == _TENSOR]
            operators.append(operator)
        block["ops"] = operators


def after(graph: Any) -> None:
    """Change an ONNX graph of paddle2onnx's into one whose loops and branches are as ONNX defines them."""
    from onnx import AttributeProto

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


def _blocks(part: Mapping[str, Any]) -> Iterator[Block]:
    for region in part.get("regions", ()):
        for block in region["blocks"]:
            yield block
            for operator in block["ops"]:
                yield from _blocks(operator)


def _values(block: Block) -> Iterator[dict[str, Any]]:
    yield from ({"%": argument["#"], "TT": argument["TT"]} for argument in block["args"])
    for operator in block["ops"]:
        yield from operator["O"] if isinstance(operator["O"], list) else [operator["O"]]


def _in_single_precision(operator: Mapping[str, Any]) -> None:
    for attribute in operator["A"]:
        if isinstance(attribute, dict) and attribute["AT"]["#"] == "0.a_f64":
            attribute["AT"]["#"] = "0.a_f32"


def _every_axis(operands: list[dict[str, int]], types: dict[int, Any]) -> list[Block]:
    """What names the axes of a reduction by their numbers, where it names none and means all of them."""
    (_, shape, *_), (whole, named, *others) = (types[operand["%"]]["D"] for operand in operands)
    if named != [0]:
        return []
    attributes = {
        "value": {"#": "0.a_array", "D": [{"#": "0.a_i64", "D": axis} for axis in range(len(shape))]},
        "dtype": {"#": "1.a_dtype", "D": "int64"},
        "place": {"#": "1.a_place", "D": [1, 0, ""]},
    }
    made = _operator("1.full_int_array", [], {"#": _TENSOR, "D": [whole, [len(shape)], *others]}, types, attributes)
    operands[1] = _output(made)
    return [made]


def _copy(operand: dict[str, int], types: dict[int, Any]) -> Block:
    """What copies a value, as a cast to its own type, which runtimes drop; the operand becomes the copy."""
    kind = types[operand["%"]]
    made = _operator("1.cast", [dict(operand)], kind, types, {"dtype": {"#": "1.a_dtype", "D": _DTYPES[kind["D"][0]["#"]]}})
    operand.update(_output(made))
    return made


def _operator(name: str, inputs: list[dict[str, int]], kind: Any, types: dict[int, Any], attributes: Mapping[str, Any]) -> Block:
    number = max(types) + 1
    types[number] = kind
    constant = {"N": "stop_gradient", "AT": {"#": "0.a_array", "D": [{"#": "0.a_bool", "D": True}]}}
    named = [{"N": key, "AT": value} for key, value in attributes.items()]
    return {"#": name, "A": named, "I": inputs, "O": [{"%": number, "TT": kind}], "OA": [constant]}


def _output(operator: Block) -> dict[str, int]:
    return {"%": operator["O"][0]["%"]}


def _scalar(graph: Any, vector: str, name: str) -> str:
    """Add what makes the scalar `name` of a vector of one."""
    from onnx import TensorProto, helper

    none = helper.make_tensor("none", TensorProto.INT64, [0], [])
    graph.node.append(helper.make_node("Constant", [], [f"{name}.shape"], value=none))
    graph.node.append(helper.make_node("Reshape", [vector, f"{name}.shape"], [name]))
    return name


def _define_body(body: Any, loop: str) -> None:
    """Give the values that a loop's body takes names of their own, and make its two conditions and its counter scalars."""
    _rename(body, {value.name: f"{loop}.{value.name}" for value in body.input})
    body.output[0].name = _scalar(body, body.output[0].name, f"{loop}.again")
    for value in body.input[:2]:
        value.type.tensor_type.shape.ClearField("dim")


def _forget_shapes(values: Iterable[Any]) -> None:
    """Leave the shapes of what bodies take and give to the runtime: they may change, and a scalar may be a vector of one."""
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
