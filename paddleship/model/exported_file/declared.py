"""Whether model.inputs declares the inputs of an exported program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paddleship.config.sections.model import Input
from paddleship.errors import ModelError


def require(inputs: Sequence[Input], program: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Raise ModelError, with the lines to write, unless each input of the program is declared with its dtype and its fixed sizes."""
    declared, expected = {item.name: item for item in inputs}, {item["name"]: item for item in program}
    if declared.keys() != expected.keys():
        odd = f"are {', '.join(declared)}, and those of {str(path)!r} are {', '.join(expected)}"
    else:
        odd = next(filter(None, (_difference(declared[name], item, path) for name, item in expected.items())), "")
    if odd:
        raise ModelError(f"model.inputs {odd}: write {_lines(program)}")


def _difference(declared: Input, item: Mapping[str, Any], path: Path) -> str:
    name, shape = declared.name, item["shape"]
    if declared.dtype != item["dtype"]:
        return f"declare {name!r} as {declared.dtype}, and {str(path)!r} takes {item['dtype']}"
    if len(declared.shape) != len(shape):
        return f"declare {name!r} with {len(declared.shape)} dimensions, and {str(path)!r} takes {len(shape)}"
    wrong = next((axis for axis, (mine, its) in enumerate(zip(declared.shape, shape, strict=True)) if its >= 0 and mine != its), None)
    if wrong is None:
        return ""
    if wrong == 0:
        return f"declare any batch, and {str(path)!r} takes batches of {shape[0]} only; export it with a dynamic batch, or"
    return f"declare {declared.shape[wrong]!r} in dimension {wrong} of {name!r}, and {str(path)!r} takes {shape[wrong]}"


def _lines(program: Sequence[Mapping[str, Any]]) -> str:
    """The inputs as they are written in params.yaml."""
    lines = []
    for item in program:
        sizes = [str(size) if size >= 0 else "batch" if axis == 0 else f"{item['name']}_{axis}" for axis, size in enumerate(item["shape"])]
        lines.append(f"{{name: {item['name']}, dtype: {item['dtype']}, shape: [{', '.join(sizes)}]}}")
    return f"inputs: [{', '.join(lines)}]"
