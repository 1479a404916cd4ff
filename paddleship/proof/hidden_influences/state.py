"""The state that a model keeps between calls, and the lines of the user's code that change it."""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddleship.shipped.computing.references import is_users

_GROW = frozenset({"append", "extend", "add", "update", "insert", "setdefault", "pop", "popleft", "appendleft", "clear"})
_Key = tuple[str, str]  # a source file, and the name of an attribute or a global in it


@dataclass(frozen=True)
class State:
    """Plain values, sizes of containers and buffers of the user's layers, and globals of their modules."""

    values: dict[_Key, Any]

    @classmethod
    def of(cls, layer: Any) -> State:
        digests: dict[_Key, Any] = {}
        for part in layer.sublayers(include_self=True):
            file = _file(type(part))
            if file and is_users(file):
                for attributes in (vars(part), part._buffers, _class_values(type(part)), vars(sys.modules[type(part).__module__])):
                    for name, value in attributes.items():
                        digests[file, name] = (*digests.get((file, name), ()), _digest(value))
        return cls(digests)

    def changes(self, layer: Any) -> list[str]:
        """`file:line` of state that has changed since, if a line outside `__init__` writes it."""
        after = State.of(layer).values
        changed = [key for key, value in after.items() if value != self.values.get(key)]
        return [line for file, name in changed for line in _writers(file, name)]


def _file(kind: type) -> str | None:
    try:
        return inspect.getsourcefile(kind)
    except TypeError:
        return None


def _class_values(kind: type) -> dict[str, Any]:
    return {name: value for name, value in vars(kind).items() if not name.startswith("__")}


def _digest(value: Any) -> Any:
    """A value that stays equal as long as the state does: the value itself, the size of a container, the hash of an array."""
    if isinstance(value, bool | int | float | str | None):
        return value
    if isinstance(value, type):
        return None
    if hasattr(value, "numpy") and hasattr(value, "shape"):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    if isinstance(value, list | tuple | dict | set) or hasattr(value, "popleft"):
        return (len(value), *(item for item in list(value)[:100] if isinstance(item, bool | int | float | str)))
    return None


def _writers(file: str, name: str) -> Iterator[str]:
    """Lines that assign to a name or attribute, or change a container, outside `__init__` and module level."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name != "__init__"):
        for target in (target for node in ast.walk(function) for target in _targets(node)):
            if _names(target) == name:
                yield f"{file}:{target.lineno}"


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, ast.AugAssign | ast.AnnAssign):
        return [node.target]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROW:
        return [node.func.value]
    return []


def _names(target: ast.expr) -> str | None:
    """The names in `self.name`, `name`, `self.name[0]` and `Model.name`."""
    while isinstance(target, ast.Subscript):
        target = target.value
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else None
