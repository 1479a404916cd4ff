"""Find the statement that the conversion changes, by the wrong answers of the program.

Eager is run again with the statement changed as the conversion is known to change it. If its answers are then those of the program, the
statement is the cause; a suspicious statement alone is none, because most of them convert.
"""

from __future__ import annotations

import ast
import gc
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import CodeType, FunctionType

from paddleship.doctor import memory
from paddleship.doctor.ast_lint import IN_PLACE, USED_AFTER_BREAK, Suspect
from paddleship.errors import BadInput
from paddleship.model.eager import Eager, SourceModel
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import Arrays

PATTERNS = frozenset({IN_PLACE, USED_AFTER_BREAK})


@dataclass(frozen=True)
class Answered:
    """A batch, and the program's answer, which is not eager's."""

    inputs: Batch
    wrong: Arrays


@dataclass(frozen=True)
class _Change:
    """What the conversion does with a statement of this kind; `apply` returns the statement as the program has it."""

    node: type[ast.stmt]
    apply: Callable[[ast.stmt, str], ast.stmt]
    message: str
    advice: str


def find(source_model: SourceModel, suspects: Sequence[Suspect], answered: Sequence[Answered]) -> list[Finding]:
    """The suspects, all of one pattern, with whose change eager answers as the program; one alone, or all of a pattern together."""
    eager = Eager(source_model)
    groups = [[suspect] for suspect in suspects]
    groups += [group for pattern in _CHANGES if len(group := [one for one in suspects if one.pattern == pattern]) > 1]
    cause = next((group for group in groups if _explains(eager, group, answered)), [])
    return [_finding(suspect) for suspect in cause]


def _finding(suspect: Suspect) -> Finding:
    change = _CHANGES[suspect.pattern]
    message = change.message.format(name=suspect.name)
    message += f": eager with this change answers as the program does ({suspect.text})"
    return Finding("changed-statement", "error", message, change.advice.format(plain=suspect.name.rstrip("_")), suspect.where)


def _explains(eager: Eager, group: Sequence[Suspect], answered: Sequence[Answered]) -> bool:
    with suppress(BadInput, ValueError), _changed(group):
        return all(memory.same(eager.run(one.inputs), one.wrong) for one in answered)
    return False


@contextmanager
def _changed(group: Sequence[Suspect]) -> Iterator[None]:
    """Run the functions of these statements with the statements changed. Raises ValueError if a function cannot be changed."""
    replaced: dict[FunctionType, CodeType] = {}
    try:
        for file in {suspect.file for suspect in group}:
            codes = _codes(_rewritten(file, {one.line: one for one in group if one.file == file}), file)
            for function in _functions(file):
                code = codes.get((function.__code__.co_qualname, function.__code__.co_firstlineno))
                if code is not None:
                    replaced[function] = function.__code__
                    function.__code__ = code
        yield
    finally:
        for function, code in replaced.items():
            function.__code__ = code


def _rewritten(file: str, changed: Mapping[int, Suspect]) -> ast.Module:
    class Rewriter(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            node = self.generic_visit(node)
            suspect = changed.get(getattr(node, "lineno", 0))
            change = _CHANGES[suspect.pattern] if suspect else None
            return change.apply(node, suspect.name) if suspect and change and isinstance(node, change.node) else node

    tree = ast.parse("".join(linecache.getlines(file)))
    Rewriter().generic_visit(tree)
    return ast.fix_missing_locations(tree)


def _codes(tree: ast.Module, file: str) -> dict[tuple[str, int], CodeType]:
    """The code of every function in a module, by its name and first line."""
    waiting, codes = [compile(tree, file, "exec", dont_inherit=True)], {}
    while waiting:
        code = waiting.pop()
        codes[code.co_qualname, code.co_firstlineno] = code
        waiting += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return codes


def _functions(file: str) -> list[FunctionType]:
    return [thing for thing in gc.get_objects() if isinstance(thing, FunctionType) and thing.__code__.co_filename == file]


def _without(statement: ast.stmt, _name: str) -> ast.stmt:
    return ast.copy_location(ast.Pass(), statement)


def _one_further(statement: ast.stmt, name: str) -> ast.stmt:
    """The loop, whose variable has its next value after a `break`."""

    class Breaks(ast.NodeTransformer):
        def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
            return [ast.copy_location(ast.parse(f"{name} = {name} + 1").body[0], node), node]

        def _skip(self, node: ast.AST) -> ast.AST:
            return node  # its breaks are its own

        visit_For = visit_While = visit_FunctionDef = _skip

    if isinstance(statement, ast.For):
        statement.body = Breaks().visit(ast.Module(statement.body, [])).body
    return statement


_CHANGES = {
    IN_PLACE: _Change(
        ast.Expr,
        _without,
        "the conversion drops this call of {name}(), which changes a tensor in place",
        "assign the result of the method that is not in place: y = y.{plain}(…)",
    ),
    USED_AFTER_BREAK: _Change(
        ast.For,
        _one_further,
        "in the program, the loop variable {name!r} is one further after `break` than in eager mode",
        "copy it inside the loop, before the `break` (last = i), and use the copy after the loop",
    ),
}
