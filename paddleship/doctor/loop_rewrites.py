"""Rewrite a function so that a loop holds tensors only, and let a process import the rewritten source.

A rewrite shows that a value is the cause of an error: it is what a user would write instead, as far as that can be done without
knowledge of the model.
"""

from __future__ import annotations

import ast
import copy
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import SourceFileLoader
from typing import Any

from paddleship.doctor import loop_values
from paddleship.doctor.ast_lint import Suspect
from paddleship.doctor.loop_values import Loop

TENSOR, FIRST_STEP, LOCAL = "tensor", "first step", "local variable"
VALUE_AGAIN = "value again"  # after the first step, so that this value alone enters the loop as it did
_PADDLE = "_paddle"


def rewritten(file: str, changes: Sequence[tuple[Suspect, str]]) -> str:
    """The source of a file with the functions of these suspects rewritten, each in its form."""
    tree = ast.parse("".join(linecache.getlines(file)))
    for suspect, form in changes:
        for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
            lines = {getattr(node, "lineno", 0) for node in loop_values.own(function.body)}
            if suspect.line in lines:
                _REWRITES[form](function, suspect)
    docs = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    after = max([tree.body.index(node) + 1 for node in docs], default=0)
    tree.body.insert(after, ast.parse(f"import paddle as {_PADDLE}").body[0])
    return ast.unparse(ast.fix_missing_locations(tree))


def import_rewritten(sources: Mapping[str, str]) -> None:
    """Let this process import these files with other source, and show it to those who read the source of a function, as Paddle does.

    For a child process that has not imported them.
    """
    original = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, fullname: str) -> Any:
        path = loader.get_filename(fullname)
        return compile(sources[path], path, "exec", dont_inherit=True) if path in sources else original(loader, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
    for path, text in sources.items():
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)


def tensor_start(suspect: Suspect) -> str:
    """The tensor to write instead of the number."""
    tree = ast.parse("".join(linecache.getlines(suspect.file)))
    number = next(ast.unparse(value) for _statement, value in _values(tree, suspect))
    return "paddle.zeros([])" if number in ("0", "0.0") else f"paddle.full([], {number})"


def _start_with_tensor(function: ast.FunctionDef, suspect: Suspect) -> None:
    for statement, value in list(_values(function, suspect)):
        tensor = f"{_PADDLE}.full([], {ast.unparse(value)}, {_PADDLE}.get_default_dtype())"
        _replace(statement, value, ast.parse(tensor, mode="eval").body)


def _values(tree: ast.AST, suspect: Suspect) -> Iterator[tuple[ast.AST, ast.expr]]:
    """The statements that assign to the variable on its line, with its value."""
    for node in ast.walk(tree):
        if getattr(node, "lineno", 0) == suspect.line:
            yield from ((node, value) for target, value in loop_values.assignments(node) if target.id == suspect.name)


def _replace(node: ast.AST, old: ast.expr, new: ast.expr) -> None:
    class Replacer(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else self.generic_visit(node)

    Replacer().visit(node)


def _take_first_step_out(function: ast.FunctionDef, suspect: Suspect, again: Sequence[ast.stmt] = ()) -> None:
    """Write the body of each loop that assigns the variable once before it, and after it the statements `again`."""
    loops = [node for node in loop_values.own(function.body) if isinstance(node, Loop)]
    chosen = loop_values.name_loops(loops, suspect.name, suspect.line - 1)

    class Peeler(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            self.generic_visit(node)
            return _peeled(node, again) if isinstance(node, Loop) and node in chosen else node

    Peeler().visit(function)


def _repeat_value(function: ast.FunctionDef, suspect: Suspect) -> None:
    value = next((ast.unparse(value) for _statement, value in _values(function, suspect)), "None")
    _take_first_step_out(function, suspect, ast.parse(f"{suspect.name} = {value}").body)


def _peeled(loop: Loop, again: Sequence[ast.stmt]) -> list[ast.stmt]:
    first: list[ast.stmt] = copy.deepcopy(loop.body)
    if any(isinstance(node, ast.Continue | ast.Break) for node in loop_values.own(first)):
        first = [ast.For(ast.Name("_once", ast.Store()), ast.parse("range(1)", mode="eval").body, first, [])]
    if isinstance(loop, ast.While):
        return [*first, *again, loop]
    target, steps = ast.unparse(loop.target), ast.unparse(loop.iter)
    if isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range":
        start, stop, step = _range(loop.iter)
        begin, rest = [f"{target} = {start}"], f"range({start} + {step}, {stop}, {step})"
    else:
        begin, rest = [f"_steps = {steps}", f"{target} = _steps[0]"], "_steps[1:]"
    loop.iter = ast.parse(rest, mode="eval").body
    return [*ast.parse("\n".join(begin)).body, *first, *again, loop]


def _range(call: ast.Call) -> tuple[str, str, str]:
    given = [ast.unparse(argument) for argument in call.args]
    start, stop = ("0", given[0]) if len(given) == 1 else given[:2]
    return start, stop, given[2] if len(given) > 2 else "1"


def _make_local(function: ast.FunctionDef, suspect: Suspect) -> None:
    """Replace the attribute of self by a local variable, which is a new list if the function does not assign it."""
    local = "_" + suspect.name.removeprefix("self.")
    stored = [node for node in loop_values.own(function.body) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]

    class Renamer(ast.NodeTransformer):
        def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
            return ast.Name(local, node.ctx) if loop_values.self_attribute(node) == suspect.name else self.generic_visit(node)

    Renamer().generic_visit(function)
    if suspect.name not in map(loop_values.self_attribute, stored):
        function.body.insert(0, ast.parse(f"{local} = []").body[0])


_REWRITES: dict[str, Callable[[ast.FunctionDef, Suspect], None]] = {
    TENSOR: _start_with_tensor,
    FIRST_STEP: _take_first_step_out,
    VALUE_AGAIN: _repeat_value,
    LOCAL: _make_local,
}
