"""How ONNX's operators are written with Paddle's functions: a module a group, each with its OPERATORS."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from paddleship.shipped.computing import discovery

Writer = Callable[[Any], Any]
"""Takes a `paddleship.model.exported_file.onnx_file.node.Node`. Returns its result, or a list of its results."""


@cache
def writers() -> Mapping[str, Writer]:
    """The writers of all operators, by the names of the operators."""
    groups = discovery.in_package(__name__, Path(__file__).parent, "OPERATORS", dict)
    return {name: writer for group in groups for name, writer in group.registration.items()}
