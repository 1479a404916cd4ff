"""The state that a model keeps between calls, and the lines of the user's code that change it."""

from __future__ import annotations

import ast
import hashlib
import inspect
import itertools
import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import CellType
from typing import Any

import numpy as np

from paddleship.shipped.computing.references import is_users

_GROW = frozenset({"append", "extend", "add", "update", "insert", "setdefault", "pop", "popleft", "appendleft", "clear"})
_Key = tuple[str, str]  # a source file, and the name of an attribute or a global in it


@dataclass(frozen=True)
class State:
    """Plain values, sizes of containers and buffers of the user's layers, globals of their modules, and what their functions keep."""

    values: dict[_Key, Any]

    @classmethod
    def of(cls, layer: Any) -> State:
        digests: dict[_Key, Any] = {}
        for part in layer.sublayers(include_self=True):
            file = _file(type(part))
            if file and is_users(file):
                owned = [vars(part), part._buffers, _class_values(type(part)), vars(sys.modules[type(part).__module__])]
                functions = [value for values in owned for value in values.values() if inspect.isfunction(value)]
                owned += [_stored_by(function) for function in functions if function.__code__.co_filename == file]
                for attributes in owned:
                    for name, value in attributes.items():
                        digests[file, name] = (*digests.get((file, name), ()), _digest(value))
        return cls(digests)

    def changes(self, after: State, *, read: bool = False) -> list[str]:
        """`file:line` of state that differs in `after`, if a line outside `__init__` writes it. `read`: and another line reads it."""
        changed = [key for key, value in after.values.items() if value != self.values.get(key)]
        return [line for file, name in changed if not read or _is_read(file, name) for line in _writers(file, name)]


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
    if isinstance(value, itertools.count):
        return repr(value)
    if isinstance(value, type):
        return None
    if hasattr(value, "numpy") and hasattr(value, "shape"):
        value = value.numpy()
    if isinstance(value, np.ndarray):
        return hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
    if isinstance(value, list | tuple | dict | set) or hasattr(value, "popleft"):
        return (len(value), *(item for item in list(value)[:100] if isinstance(item, bool | int | float | str)))
    return None


def _stored_by(function: Any) -> dict[str, Any]:
    """What a function keeps between calls: attributes, mutable defaults, and variables of the function around it."""
    defaults = {name: one.default for name, one in inspect.signature(function).parameters.items() if one.default is not one.empty}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {**defaults, **{name: cell.cell_contents for name, cell in cells if cell != CellType()}, **vars(function)}


def _writers(file: str, name: str) -> Iterator[str]:
    """Lines that assign to a name or attribute, or change a container, outside `__init__` and module level."""
    functions = list(_functions(file))
    closures = [function for function in functions if any(isinstance(node, ast.Nonlocal) and name in node.names for node in function.body)]
    for function in closures or functions:
        for target in (target for node in ast.walk(function) for target in _targets(node)):
            if _names(target) == name:
                yield f"{file}:{target.lineno}"


def _is_read(file: str, name: str) -> bool:
    """Whether a line outside `__init__` reads a name or attribute other than to change it: a log that only grows is not read."""
    for function in _functions(file):
        nodes = list(ast.walk(function))
        writes = {id(part) for node in nodes if name in map(_names, _targets(node)) for part in _parts(node)}
        loads = (node for node in nodes if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load))
        if any(_names(load) == name and id(load) not in writes for load in loads):
            return True
    return False


def _functions(file: str) -> Iterator[ast.FunctionDef]:
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name != "__init__")


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """A statement that changes a name; of a call, the function alone, because its arguments may read."""
    yield from ast.walk(node.func if isinstance(node, ast.Call) else node)


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, ast.AugAssign | ast.AnnAssign):
        return [node.target]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROW:
        return [node.func.value]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next":
        return node.args[:1]
    return []


def _names(target: ast.expr) -> str | None:
    """The names in `self.name`, `name`, `self.name[0]` and `Model.name`."""
    while isinstance(target, ast.Subscript):
        target = target.value
    return target.attr if isinstance(target, ast.Attribute) else target.id if isinstance(target, ast.Name) else None
