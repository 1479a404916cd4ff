"""Transpose channels-last operators to channels-first and back: paddle2onnx 2.1 does not support them or converts them wrongly."""

from __future__ import annotations

from typing import Any

from paddleship.conversion import pir
from paddleship.conversion.pir import Operand, Operator, Writer

_FIRST = {"NHWC": "NCHW", "NDHWC": "NCDHW"}


def put_first(operator: Operator, writer: Writer) -> tuple[Operator, ...]:
    """The operator between two transpositions, with the channels first; the operator itself if its channels are first already."""
    layouts = [item["AT"] for item in operator["A"] if isinstance(item, dict) and item["N"] == "data_format"]
    if not layouts or layouts[0]["D"] not in _FIRST or len(operator["O"][0]["TT"]["D"][1]) != len(layouts[0]["D"]):
        return (operator,)
    (layout,), (result, *more) = layouts, operator["O"]
    rank = len(layout["D"])
    values, *others = operator["I"]
    forth, back = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    layout["D"] = _FIRST[layout["D"]]
    transposed = writer.add("1.transpose", [values], _moved(writer.types[values["%"]], forth), perm=_numbers(forth))
    kind = _moved(result["TT"], forth)
    computed: Operand = writer.new(kind)
    inner = {**operator, "I": [transposed, *others], "O": [computed | {"TT": kind}, *more]}
    return inner, {"#": "1.transpose", "A": [{"N": "perm", "AT": _numbers(back)}], "I": [computed], "O": [result], "OA": [pir.CONSTANT]}


def _moved(kind: Any, order: list[int]) -> dict[str, Any]:
    element, shape, *others = kind["D"]
    return {"#": pir.TENSOR, "D": [element, [shape[axis] for axis in order], *others]}


def _numbers(order: list[int]) -> dict[str, Any]:
    return {"#": "0.a_array", "D": [{"#": "0.a_i32", "D": axis} for axis in order]}
