"""Read and write Paddle's program in model.json (PIR): its blocks and operators.

An operator "#" has attributes A, inputs I and outputs O; a value has a number % and a type TT.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Operator = dict[str, Any]
Operand = dict[str, int]
TENSOR = "0.t_dtensor"
CONSTANT = {"N": "stop_gradient", "AT": {"#": "0.a_array", "D": [{"#": "0.a_bool", "D": True}]}}  # of one output
_KINDS = {"i": "int", "ui": "uint", "f": "float", "bf": "bfloat"}
_DTYPES = {"0.t_bool": "bool"} | {f"0.t_{short}{bits}": f"{kind}{bits}" for short, kind in _KINDS.items() for bits in (8, 16, 32, 64)}
_HOST = {"#": "1.a_place", "D": [1, 0, ""]}


def blocks(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All blocks of a program or operator, including those of its operators."""
    for region in part.get("regions", ()):
        for block in region["blocks"]:
            yield block
            for operator in block["ops"]:
                yield from blocks(operator)


def attribute(operator: Operator, name: str) -> Any:
    """The value of an attribute, as in the file."""
    return next(item["AT"]["D"] for item in operator["A"] if item["N"] == name)


class Writer:
    """Adds operators to `operators`; `types` maps the numbers of all values of the program to their types."""

    def __init__(self, program: Mapping[str, Any]) -> None:
        self.types = {value["%"]: value["TT"] for block in blocks(program) for value in _values(block)}
        self.operators: list[Operator] = []

    def new(self, kind: Any) -> Operand:
        """A new value of this type."""
        number = max(self.types) + 1
        self.types[number] = kind
        return {"%": number}

    def add(self, name: str, inputs: Sequence[Operand], kind: Any, **attributes: Any) -> Operand:
        """Add an operator with one output of this type. Returns the output."""
        made = self.new(kind)
        named = [{"N": key, "AT": value} for key, value in attributes.items()]
        outputs = [made | {"TT": kind}]
        self.operators.append({"#": name, "A": named, "I": [dict(item) for item in inputs], "O": outputs, "OA": [CONSTANT]})
        return made

    def copied(self, value: Operand) -> Operand:
        """A copy of a value, as a cast to its own type, which runtimes remove."""
        return self.cast(value, self.types[value["%"]])

    def cast(self, value: Operand, kind: Any) -> Operand:
        """The value cast to this type."""
        return self.add("1.cast", [value], kind, dtype=_dtype(kind["D"][0]))

    def number(self, value: float, like: Operand) -> Operand:
        """A constant with one element, of another value's type."""
        element, _, *others = self.types[like["%"]]["D"]
        attributes = {"shape": {"#": "1.a_intarray", "D": [1]}, "value": {"#": "0.a_f64", "D": value}}
        return self.add("1.full", [], {"#": TENSOR, "D": [element, [1], *others]}, **attributes, dtype=_dtype(element), place=_HOST)

    def axes(self, numbers: Sequence[int]) -> Operand:
        """A constant with axes."""
        element = {"#": "0.t_i64"}
        value = {"#": "0.a_array", "D": [{"#": "0.a_i64", "D": number} for number in numbers]}
        kind = {"#": TENSOR, "D": [element, [len(numbers)], "NCHW", [], 0]}
        return self.add("1.full_int_array", [], kind, value=value, dtype=_dtype(element), place=_HOST)

    def scaled(self, value: Operand, factor: float, bias: float) -> Operand:
        """`factor` × the value + `bias`."""
        attributes = {"bias": {"#": "0.a_f32", "D": bias}, "bias_after_scale": {"#": "0.a_bool", "D": True}}
        return self.add("1.scale", [value, self.number(factor, value)], self.types[value["%"]], **attributes)


def _values(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from ({"%": argument["#"], "TT": argument["TT"]} for argument in block["args"])
    for operator in block["ops"]:
        yield from operator["O"] if isinstance(operator["O"], list) else [operator["O"]]


def _dtype(element: Mapping[str, Any]) -> dict[str, str]:
    return {"#": "1.a_dtype", "D": _DTYPES[element["#"]]}
