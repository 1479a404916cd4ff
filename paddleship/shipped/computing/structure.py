"""The nesting of a model's outputs: dict, list, tuple, None, in the order of the user's code.

A runtime returns arrays by name; `rebuild` nests them as the eager model does. This module goes into the image, so it
imports only the standard library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Tree = Any  # {"dict": {key: tree}} | {"list": [tree]} | {"tuple": [tree]} | {"constant": value} | None | the name of an output

_CONSTANTS = (bool, int, float, str)


def describe(result: Any, is_tensor: Callable[[Any], bool]) -> tuple[Tree, dict[str, Any]]:
    """The nesting of the result of forward, and its tensors by name, in order.

    A single tensor is called `output`, elements of a sequence `output_<i>`, those of a dict have their keys as names, and deeper
    ones their path (`states.0`). Numbers, bools and strings are constants in the nesting. Raises TypeError for anything else.
    """
    named: dict[str, Any] = {}
    return _walk(result, "", is_tensor, named), named


def rebuild(tree: Tree, outputs: Mapping[str, Any]) -> Any:
    """Nest outputs by name as the eager model does."""
    if tree is None:
        return None
    if isinstance(tree, str):
        return outputs[tree]
    ((kind, parts),) = tree.items()
    if kind == "constant":
        return parts
    if kind == "dict":
        return {key: rebuild(part, outputs) for key, part in parts.items()}
    built = [rebuild(part, outputs) for part in parts]
    return tuple(built) if kind == "tuple" else built


def constants(tree: Tree, place: str = "") -> dict[str, Any]:
    """The constants among the outputs, by the names that tensors at their places would have."""
    if not isinstance(tree, dict):
        return {}
    ((kind, parts),) = tree.items()
    if kind == "constant":
        return {place or "output": parts}
    if kind == "dict":
        below = [constants(part, f"{place}.{key}" if place else str(key)) for key, part in parts.items()]
    else:
        below = [constants(part, f"{place}.{index}" if place else f"output_{index}") for index, part in enumerate(parts)]
    return {name: value for part in below for name, value in part.items()}


def _walk(value: Any, place: str, is_tensor: Callable[[Any], bool], named: dict[str, Any]) -> Tree:
    if value is None:
        return None
    if is_tensor(value):
        named[place or "output"] = value
        return place or "output"
    if isinstance(value, Mapping):
        return {"dict": {str(key): _walk(part, f"{place}.{key}" if place else str(key), is_tensor, named) for key, part in value.items()}}
    if isinstance(value, list | tuple):
        prefix = f"{place}." if place else "output_"
        parts = [_walk(part, f"{prefix}{index}", is_tensor, named) for index, part in enumerate(value)]
        return {"tuple" if isinstance(value, tuple) else "list": parts}
    if isinstance(value, _CONSTANTS):
        return {"constant": value}
    where = f" as {place!r}" if place else ""
    raise TypeError(f"{type(value).__name__}{where}")
