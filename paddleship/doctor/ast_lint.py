"""Find lines of the user's code that are known to cause trouble in a static graph, in the syntax tree.

Only statements that a run of forward has executed are checked. The result is a suspicion; it becomes a finding if the model's
behaviour or an error of the conversion agrees.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from paddleship.doctor import loop_values

Line = tuple[str, int]

STATE = "state"  # an assignment to an attribute of self; its meaning depends on the attribute
FORCED = "training=True"
FILLED_IN_LOOP = "tensor list"  # a list that a `while` loop, or a `for` loop over a tensor, fills
GROUPED = "groups"  # a call with computed groups
ONE_SIDED = "one-sided"  # a variable that one side of an `if` assigns
IN_PLACE = "in place"  # a statement that calls a method which changes a tensor in place
USED_AFTER_BREAK = "loop variable"  # a `for` with a `break`, whose variable is used after it
LEFT_BY_BREAK = "break"  # a loop over Python numbers with a `break` under an `if`

_TO_PYTHON = frozenset({"numpy", "item", "tolist"})
_BUILTINS = frozenset({"float", "int", "bool", "max", "min", "sum", "sorted", "round", "len", "list"})
_RANGE = "range"  # of a tensor, it converts in the header of a loop only
_GROW = frozenset({"append", "extend", "add", "update", "insert", "setdefault", "pop", "clear"})


@dataclass(frozen=True)
class Suspect:
    """A suspicious expression of the user's code. `pattern` is a kind of finding or one of the above, `name` what is assigned or called."""

    pattern: str
    file: str
    line: int
    name: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


def suspects(executed: Iterable[Line]) -> list[Suspect]:
    """The suspicious expressions in the statements of these lines, file by file."""
    lines: dict[str, set[int]] = {}
    for name, line in executed:
        lines.setdefault(name, set()).add(line)
    return [suspect for name in sorted(lines) for suspect in _of_file(name) if suspect.line in lines[name]]


def at(where: str | None) -> list[Suspect]:
    """The suspicious expressions in the statement at `file:line`."""
    if where is None:
        return []
    name, _, number = where.rpartition(":")
    return [suspect for suspect in _of_file(name) if suspect.line == int(number)]


def text(where: str) -> str:
    """The source line at `file:line`."""
    name, _, number = where.rpartition(":")
    return linecache.getline(name, int(number)).strip()


def is_statement(where: str | None) -> bool:
    """Whether `file:line` is a line of a body, and not the head of a function or class, which stands for all of it."""
    return where is not None and not text(where).startswith(("def ", "async def ", "class ", "@"))


def names(where: str | None) -> set[str]:
    """The variables that the function at `file:line` reads."""
    name, _, number = (where or "").rpartition(":")
    function = _function(name, number) if where else None
    return {node.id for node in ast.walk(function) if isinstance(node, ast.Name)} if function else set()


def size(where: str | None) -> str:
    """The size, assigned from a `.shape`, that a call at `file:line` takes as its only argument; empty if there is none."""
    name, _, number = (where or "").rpartition(":")
    function = _function(name, number)
    if function is None:
        return ""
    shapes = [node for node in ast.walk(function) if isinstance(node, ast.Assign) and _is_shape(node.value)]
    sizes = {target.id for node in shapes for target in _targets(node) if isinstance(target, ast.Name)}
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and node.lineno == int(number) and len(node.args) == 1]
    return next((argument.id for node in calls if isinstance(argument := node.args[0], ast.Name) and argument.id in sizes), "")


def reads_only_self(expression: str) -> bool:
    """Whether the arguments of this call are attributes of self and constants."""
    try:
        call = ast.parse(expression, mode="eval").body
    except SyntaxError:
        return False
    arguments = [*call.args, *(option.value for option in call.keywords)] if isinstance(call, ast.Call) else []
    names = {node.id for argument in arguments for node in ast.walk(argument) if isinstance(node, ast.Name)}
    return bool(arguments) and names <= {"self"}


def _is_shape(node: ast.expr) -> bool:
    """Whether it is `x.shape`, or a part of it."""
    return (isinstance(node, ast.Attribute) and node.attr == "shape") or (isinstance(node, ast.Subscript) and _is_shape(node.value))


def one_sided(where: str | None) -> list[tuple[str, str]]:
    """The `if`s before `file:line`, in its function, that assign a variable which the line uses, on one side only: line and condition."""
    name, _, number = (where or "").rpartition(":")
    function = _function(name, number)
    if function is None:
        return []
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and node.lineno == int(number)}
    ifs = [node for node in ast.walk(function) if isinstance(node, ast.If) and node.lineno < int(number)]
    return [(f"{name}:{node.lineno}", ast.unparse(node.test)) for node in ifs if used & (_assigned(node.body) ^ _assigned(node.orelse))]


def _function(name: str, number: str) -> ast.FunctionDef | None:
    """The innermost function that holds this line of a file."""
    functions = [node for node in ast.walk(_parsed(name)) if isinstance(node, ast.FunctionDef) and _spans(node, int(number))]
    return max(functions, key=lambda node: node.lineno, default=None)


def _spans(node: ast.FunctionDef, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _assigned(body: Iterable[ast.stmt]) -> set[str]:
    """The variables that these statements assign."""
    return {target.id for part in body for node in ast.walk(part) for target in _targets(node) if isinstance(target, ast.Name)}


@cache
def _parsed(name: str) -> ast.Module:
    """The syntax tree of a file; empty if it is not Python."""
    try:
        return ast.parse("".join(linecache.getlines(name)))
    except SyntaxError:
        return ast.Module([], [])


@cache
def _of_file(name: str) -> tuple[Suspect, ...]:
    tree = _parsed(name)
    matches: list[Suspect] = []
    module_names = {target.id for node in tree.body for target in _targets(node) if isinstance(target, ast.Name)}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        shared = {name for node in ast.walk(function) if isinstance(node, ast.Global) for name in node.names}
        headers = {id(node.iter) for node in ast.walk(function) if isinstance(node, ast.For)}
        for node in _own(function):
            matches += [
                Suspect(
                    pattern,
                    name,
                    line,
                    what,
                    ast.unparse(node).splitlines()[0] if line == getattr(node, "lineno", line) else text(f"{name}:{line}"),
                )
                for pattern, line, what in _patterns(node, function, shared, module_names)
                if not (what == _RANGE and id(node) in headers)
            ]
        for pattern, line, what in loop_values.read(function):
            matches.append(Suspect(pattern, name, line, what, text(f"{name}:{line}")))
    return tuple(dict.fromkeys(matches))


def _own(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function without those of nested functions."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)


def _patterns(node: ast.AST, function: ast.FunctionDef, shared: set[str], module_names: set[str]) -> Iterator[tuple[str, int, str]]:
    """(kind of finding, line, name) for one node."""
    if isinstance(node, ast.Call):
        yield from _calls(node, function, module_names)
    for target in _targets(node):
        line = node.lineno  # type: ignore[attr-defined]
        owner = _root(target)
        if owner == "self":
            yield STATE, line, _path(target)
        elif owner in shared or (not isinstance(target, ast.Name) and owner in module_names):
            yield "global-state", line, str(owner)
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        condition = ast.unparse(node.test)
        if ".shape" in condition or "len(" in condition:
            yield "dynamic-shape-branch", node.test.lineno, condition
        if "in_dynamic_mode" in condition or ("isinstance(" in condition and "Tensor" in condition):
            yield "frozen-branch", node.test.lineno, condition
        if "training" in condition:
            yield "train-mode", node.test.lineno, condition
        if isinstance(node, ast.If) and _gives_none(node, function):
            yield "branch-mismatch", node.test.lineno, condition
    if isinstance(node, ast.While) or (isinstance(node, ast.For) and "paddle." in ast.unparse(node.iter)):
        for part in ast.walk(node):
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in ("append", "extend", "insert"):
                yield FILLED_IN_LOOP, part.lineno, ast.unparse(part.func.value)
    yield from _changed(node, function)
    if isinstance(node, ast.For) and any(isinstance(part, ast.Break | ast.Return) for part in ast.walk(node)):
        yield LEFT_BY_BREAK, node.lineno, ast.unparse(node.iter)
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        yield "frozen-dimension", node.lineno, ast.unparse(node)


def _changed(node: ast.AST, function: ast.FunctionDef) -> Iterator[tuple[str, int, str]]:
    """Statements that the conversion may change."""
    called = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    if isinstance(called, ast.Attribute) and _in_place(called.attr):
        yield IN_PLACE, called.lineno, called.attr
    if isinstance(node, ast.For) and isinstance(node.target, ast.Name) and _used_after_break(node, node.target.id, function):
        yield USED_AFTER_BREAK, node.lineno, node.target.id


def _calls(node: ast.Call, function: ast.FunctionDef, module_names: set[str]) -> Iterator[tuple[str, int, str]]:
    callee = ast.unparse(node.func)
    last = callee.rpartition(".")[2]
    if (callee in _BUILTINS or callee == _RANGE) and node.args and not all(isinstance(argument, ast.Constant) for argument in node.args):
        yield ("frozen-dimension" if ".shape" in ast.unparse(node) or callee == "len" else "python-value"), node.lineno, callee
    elif callee.startswith(("np.", "numpy.", "math.")) or (isinstance(node.func, ast.Attribute) and last in _TO_PYTHON):
        yield "python-value", node.lineno, callee
    if "dropout" in last and not last[:1].isupper() and not callee.startswith("self."):
        yield "train-mode", node.lineno, callee
    if any(option.arg == "training" and isinstance(option.value, ast.Constant) and option.value.value is True for option in node.keywords):
        yield "train-mode", node.lineno, FORCED
    if any(option.arg == "groups" and not isinstance(option.value, ast.Constant) for option in node.keywords):
        yield GROUPED, node.lineno, callee
    if last == "train" and isinstance(node.func, ast.Attribute) and not node.args:
        yield "train-mode", node.lineno, callee
    owner = _root(node.func)
    if isinstance(node.func, ast.Attribute) and (last == "set_value" or _in_place(last) or last in _GROW) and owner == "self":
        yield STATE, node.lineno, _path(node.func.value)
    if isinstance(node.func, ast.Attribute) and last in _GROW and owner in module_names and owner not in _locals(function):
        yield "global-state", node.lineno, str(owner)


def _in_place(method: str) -> bool:
    """Whether a method changes its tensor, by Paddle's naming."""
    return method.endswith("_") and not method.startswith("_")


def _used_after_break(loop: ast.For, name: str, function: ast.FunctionDef) -> bool:
    later = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.lineno > (loop.end_lineno or loop.lineno)]
    return any(isinstance(part, ast.Break) for part in ast.walk(loop)) and any(node.id == name for node in later)


def _targets(node: ast.AST) -> list[ast.expr]:
    """The targets of an assignment."""
    if isinstance(node, ast.Assign):
        return [part for target in node.targets for part in (target.elts if isinstance(target, ast.Tuple | ast.List) else [target])]
    return [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else []


def _root(node: ast.AST) -> str | None:
    """The name at the start of an attribute, subscript or call chain."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _path(node: ast.AST) -> str:
    """`fc.weight` of `self.fc.weight[0]`."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute | ast.Subscript):
        parts += [node.attr] if isinstance(node, ast.Attribute) else []
        node = node.value
    return ".".join(reversed(parts))


def _locals(function: ast.FunctionDef) -> set[str]:
    assigned = {target.id for node in ast.walk(function) for target in _targets(node) if isinstance(target, ast.Name)}
    return assigned | {argument.arg for argument in function.args.args}


def _gives_none(node: ast.If, function: ast.FunctionDef) -> bool:
    """Whether one side returns None where the other returns a value, for a name or for the function."""
    sides = [
        {ast.unparse(target): part.value for part in side if isinstance(part, ast.Assign) for target in part.targets}
        for side in (node.body, node.orelse)
    ]
    if any(_is_none(sides[0][name]) != _is_none(sides[1][name]) for name in sides[0].keys() & sides[1].keys()):
        return True
    returns = [any(isinstance(part, ast.Return) and not _is_none(part.value) for part in side) for side in (node.body, node.orelse)]
    falls = function.body[-1] is node or (isinstance(function.body[-1], ast.Return) and _is_none(function.body[-1].value))
    return falls and returns[0] != returns[1]


def _is_none(node: ast.expr | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)
