"""The order of the arguments of Paddle's operator functions, as the header of its C++ interface declares them.

`paddle._C_ops` has a function for each operator, which takes the same arguments in the same order, by position only. The header is part of
every Paddle wheel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_HEADER = Path("include", "paddle", "phi", "api", "include", "api.h")
_DECLARATION = re.compile(r"^PADDLE_API [\w:<>&,* ]+?[>&\w] ?&?(\w+)\((.*)\);$", re.MULTILINE)
_PARAMETER = re.compile(r"(.+?)[ &](\w+)(?: = .*)?")
_BETWEEN = re.compile(r"[<({]|[>)}]|, ")


@dataclass(frozen=True)
class Parameter:
    """`constant`: it is a number, or a list of numbers, which a program may give as a tensor too."""

    name: str
    constant: bool
    number: bool


_REORDERED = dict.fromkeys(("argmax", "argmin"), ("x", "axis", "keepdims", "dtype"))
"""Functions that take the arguments of Paddle's Python function instead. An axis that is None stands for `flatten`."""


@cache
def of_paddle() -> Mapping[str, tuple[Parameter, ...]]:
    """The parameters of every operator of the installed Paddle, by its name."""
    import paddle

    text = (Path(paddle.__file__).parent / _HEADER).read_text(encoding="utf-8")
    found = {name: tuple(_parameters(parameters)) for name, parameters in _DECLARATION.findall(text)}
    for name, order in _REORDERED.items():
        known = {parameter.name: parameter for parameter in found[name]}
        found[name] = tuple(known[parameter] for parameter in order)
    return found


def _parameters(text: str) -> Iterator[Parameter]:
    for part in _split(text):
        matched = _PARAMETER.fullmatch(part.strip())
        if matched and matched[2] != "predefined_out":
            kind = matched[1]
            yield Parameter(matched[2], constant="IntArray" in kind or "Scalar" in kind, number="Scalar" in kind and "vector" not in kind)


def _split(text: str) -> Iterator[str]:
    """The parts between commas that are outside brackets."""
    depth = start = 0
    for found in _BETWEEN.finditer(text):
        if found[0] != ", ":
            depth += 1 if found[0] in "<({" else -1
        elif not depth:
            yield text[start : found.start()]
            start = found.end()
    yield text[start:]
