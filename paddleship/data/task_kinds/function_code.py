"""What tells two states of a user's function apart: its code and that of all it uses, but not the rest of its module."""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from paddleship.shipped.computing.references import is_users


def code_sha256(reference: str, function: Any) -> str:
    """A hash of the code of the function that `reference` names, and of the user's functions, classes and values in it, at any depth.

    Comments and formatting do not count, nor does the code of installed packages. What has no source, such as an object, counts as the
    whole module that names it.
    """
    parts: dict[str, str] = {}
    _collect(reference, function, sys.modules[reference.partition(":")[0]], parts)
    return hashlib.sha256("\n".join(f"{name} {parts[name]}" for name in sorted(parts)).encode()).hexdigest()


def _collect(name: str, value: Any, module: ModuleType, parts: dict[str, str]) -> None:
    """Add what a value that `module` names is: the code of a function or class, else the value as text."""
    if isinstance(value, ModuleType):
        return
    if not (inspect.isroutine(value) or inspect.isclass(value)):
        text = _text(value)
        parts[f"{module.__name__} {name}"] = _file_sha256(module) if text is None else text
        return
    owner = sys.modules.get(str(value.__module__))
    key = f"{value.__module__}.{value.__qualname__}"
    if key in parts or owner is None or not is_users(str(getattr(owner, "__file__", ""))):
        return
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, TypeError, SyntaxError):
        parts[key] = _file_sha256(owner)
        return
    parts[key] = ast.dump(tree)
    names = {**getattr(inspect.unwrap(value), "__globals__", vars(owner)), **_imported(tree, owner)}
    for path, used in _used(tree, names):
        _collect(path, used, owner, parts)


def _file_sha256(module: ModuleType) -> str:
    return hashlib.sha256(Path(str(module.__file__)).read_bytes()).hexdigest()


def _imported(tree: ast.AST, module: ModuleType) -> dict[str, Any]:
    """What a function imports itself, by the name that it gives it."""
    names: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            source = _import("." * node.level + (node.module or ""), module)
            names |= {one.asname or one.name: getattr(source, one.name, None) for one in node.names}
        elif isinstance(node, ast.Import):
            roots = {one: one.name if one.asname else one.name.partition(".")[0] for one in node.names}
            names |= {one.asname or root: _import(root, module) for one, root in roots.items()}
    return names


def _import(name: str, module: ModuleType) -> ModuleType | None:
    try:
        return import_module(name, module.__package__)
    except ImportError:
        return None


def _used(tree: ast.AST, names: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """What the global names of some code are, and the attributes that it reads of modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in names:
            yield node.id, names[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(owner := _module(node.value, names), ModuleType):
            yield ast.unparse(node), getattr(owner, node.attr, None)


def _module(node: ast.AST, names: dict[str, Any]) -> Any:
    if isinstance(node, ast.Attribute):
        return getattr(_module(node.value, names), node.attr, None)
    return names.get(node.id) if isinstance(node, ast.Name) else None


def _text(value: Any) -> str | None:
    """A plain value, container or array as text that is the same in every process; None for other objects."""
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return f"{value.dtype} {value.shape} {hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()}"
    if isinstance(value, dict):
        return _joined([part for item in value.items() for part in item])
    if isinstance(value, set | frozenset):
        return _joined(sorted(value, key=repr))
    if isinstance(value, list | tuple):
        return _joined(value)
    return repr(value) if isinstance(value, bool | int | float | complex | str | bytes | np.generic | None) else None


def _joined(values: Iterable[Any]) -> str | None:
    texts = [_text(value) for value in values]
    return None if None in texts else f"[{', '.join(map(str, texts))}]"
