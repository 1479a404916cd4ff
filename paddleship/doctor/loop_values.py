"""Find values with which a function enters a loop and which a loop of a static graph cannot hold, in the syntax tree.

A loop over a Python number is unrolled and may hold anything; whether a loop is over a tensor is only known by trying.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

NONE = "None before a loop"  # a variable that a loop assigns, and that is None before it
NUMBER = "number before a loop"  # a variable that a loop assigns, and that is a Python number before it
ON_SELF = "attribute in a loop"  # an attribute of self that a loop assigns or fills

FILLING = frozenset({"append", "extend", "insert", "clear"})
Loop = ast.For | ast.While


def read(function: ast.FunctionDef) -> Iterator[tuple[str, int, str]]:
    """(pattern, line, name) of each such value, at the line that assigns it; an argument that is None is at its loop."""
    loops = [node for node in own(function.body) if isinstance(node, Loop)]
    for node in (node for node in own(function.body) if isinstance(node, ast.Assign)):
        for target, value in assignments(node):
            name = target.id
            if name_loops(loops, name, node.lineno):
                if is_none(value):
                    yield NONE, node.lineno, name
                elif is_number(value):
                    yield NUMBER, node.lineno, name
    for name in _absent(function):
        stores = [node for node in own(function.body) if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)]
        first = next(iter(name_loops(loops, name, 0)), None)
        if first is not None and all(node.lineno >= first.lineno for node in stores):
            yield NONE, first.lineno, name
    for loop in loops:
        yield from ((ON_SELF, line, name) for line, name in _of_self(loop))


def own(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """These nodes and all inside them, without those of nested functions and classes."""
    for node in body:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from own(ast.iter_child_nodes(node))


def assignments(node: ast.AST) -> list[tuple[ast.Name, ast.expr]]:
    """The variables and values of an assignment; those of `a, b = None, []` one by one."""
    if not isinstance(node, ast.Assign):
        return []
    pairs: list[tuple[ast.Name, ast.expr]] = []
    for target in node.targets:
        if isinstance(target, ast.Tuple | ast.List) and isinstance(node.value, ast.Tuple | ast.List):
            parts = list(zip(target.elts, node.value.elts, strict=False))
        else:
            parts = [(target, node.value)]
        pairs += [(part, value) for part, value in parts if isinstance(part, ast.Name)]
    return pairs


def name_loops(loops: Iterable[Loop], name: str, line: int) -> list[Loop]:
    """The loops below a line that assign this variable."""
    return [loop for loop in loops if loop.lineno > line and name in _stored(loop)]


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def is_number(node: ast.expr) -> bool:
    """Whether it is a constant number, such as 0.0, -1 or float("-inf")."""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "float" and all(isinstance(argument, ast.Constant) for argument in node.args)
    if isinstance(node, ast.Attribute):
        return ast.unparse(node) in {"math.inf", "np.inf", "numpy.inf"}
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def self_attribute(node: ast.AST) -> str:
    """`self.name` of such an attribute; empty for another node."""
    owned = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    return ast.unparse(node) if owned else ""


def _stored(loop: Loop) -> set[str]:
    """The variables that the body of a loop assigns."""
    return {node.id for node in own(loop.body) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _absent(function: ast.FunctionDef) -> list[str]:
    """The arguments that are None if they are not given."""
    given = function.args
    named = [*given.posonlyargs, *given.args]
    defaults = [*zip(named[len(named) - len(given.defaults) :], given.defaults, strict=True)]
    defaults += [(argument, value) for argument, value in zip(given.kwonlyargs, given.kw_defaults, strict=True) if value is not None]
    return [argument.arg for argument, value in defaults if is_none(value)]


def _of_self(loop: Loop) -> Iterator[tuple[int, str]]:
    for node in own(loop.body):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and (name := self_attribute(node)):
            yield node.lineno, name
        filled = node.func if isinstance(node, ast.Call) else None
        if isinstance(filled, ast.Attribute) and filled.attr in FILLING and (name := self_attribute(filled.value)):
            yield filled.lineno, name
