"""The branches of the user's code: every `if`, `while`, `for` and ternary of a source file, and the instructions of each.

Positions of instructions are those of CPython 3.11 to 3.13: a conditional jump has the position of its statement or of its test; from 3.13
on, that of a `for` has the position of the iterable. From 3.12 on, a comprehension runs in the code of the function around it.
"""

from __future__ import annotations

import ast
import dis
import linecache
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Literal

Kind = Literal["if", "while", "for", "ternary"]
Span = tuple[int, int, int, int]  # first line, first column, last line, last column
OUTSIDE, TEST, BODY = 0, 1, 2

_SUSPENDED = 0x20 | 0x80 | 0x200  # code flags of generators and coroutines, whose frames are suspended and resumed
_OWN_CODE = {ast.ListComp: "<listcomp>", ast.SetComp: "<setcomp>", ast.DictComp: "<dictcomp>"} if sys.version_info < (3, 12) else {}
_COMPREHENSIONS: dict[type[ast.AST], str] = {**_OWN_CODE, ast.GeneratorExp: "<genexpr>"}
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, *_COMPREHENSIONS)
READS = frozenset({"item", "numpy", "tolist"})  # methods that read the value of a tensor into Python, or what numpy calls alike


@dataclass(frozen=True)
class Site:
    """One branch or loop in the code; `text` is its condition, or the iterable of a `for`.

    `reads`: the condition uses what `.item()` or the like returned, of a tensor or of an array, in the condition or in a variable of the
    same function.
    """

    file: str
    line: int
    column: int
    kind: Kind
    text: str
    reads: bool = field(default=False, compare=False)

    @property
    def loops(self) -> bool:
        return self.kind in ("while", "for")

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Branch:
    """A site in the syntax tree: the function that contains it (name and first line of its code), and its parts.

    `jump` is the position of the conditional jump of a loop, or of an `if` if it is not that of the test.
    """

    site: Site
    function: tuple[str, int]
    span: Span
    jump: Span
    test: Span | None
    body: tuple[Span, ...]

    def part(self, span: Span, *, jumps: bool) -> int:
        """The part of the site that an instruction at `span` belongs to; `jumps` is True for a conditional jump."""
        if jumps and span == self.jump:
            return TEST
        if self.test is not None and _inside(span, self.test):
            return TEST
        return BODY if any(_inside(span, part) for part in self.body) else OUTSIDE


@cache
def of_file(file: str) -> tuple[Branch, ...]:
    """All sites of a source file, outer before inner; empty if the file cannot be read."""
    name = short(file)
    return tuple(_branch(name, node, scopes) for node, scopes in _walk(_tree(file), ()) if scopes)


def short(file: str) -> str:
    """The path relative to the working directory if it is inside it, so that it is valid on other machines."""
    path = Path(file).resolve()
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def parts(code: CodeType) -> tuple[list[Branch], list[tuple[int, ...] | None]]:
    """The branches of a function, and for each instruction the part of each branch that it belongs to (None: unknown)."""
    mine = [branch for branch in of_file(code.co_filename) if branch.function == (code.co_name, code.co_firstlineno)]
    if not mine or code.co_flags & _SUSPENDED:
        return [], []
    jumping = _conditional(code)
    table: list[tuple[int, ...] | None] = []
    for index, (line, last, column, end) in enumerate(code.co_positions()):
        if line is None or last is None or column is None or end is None:
            table.append(None)
        else:
            table.append(tuple(branch.part((line, column, last, end), jumps=index in jumping) for branch in mine))
    return mine, table


def _conditional(code: CodeType) -> set[int]:
    """Offsets of the conditional jumps; for a far jump, of its first prefix, which is where a trace sees it."""
    offsets: set[int] = set()
    prefixes: list[int] = []
    for step in dis.get_instructions(code):
        prefixes.append(step.offset // 2)
        if step.opname == "EXTENDED_ARG":
            continue
        if step.opname == "FOR_ITER" or step.opname.startswith(("POP_JUMP", "JUMP_IF")):
            offsets.update(prefixes)
        prefixes = []
    return offsets


def _inside(span: Span, whole: Span) -> bool:
    return whole[:2] <= span[:2] and span[2:] <= whole[2:]


def _walk(node: ast.AST, scopes: tuple[ast.AST, ...]) -> Iterator[tuple[ast.If | ast.IfExp | ast.While | ast.For, tuple[ast.AST, ...]]]:
    """Every site with the functions around it, in the order in which Python evaluates them."""
    if isinstance(node, ast.If | ast.IfExp | ast.While | ast.For):
        yield node, scopes
    if isinstance(node, _SCOPES):
        scopes = (*scopes, node)
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, scopes)


def _branch(file: str, node: ast.If | ast.IfExp | ast.While | ast.For, scopes: tuple[ast.AST, ...]) -> Branch:
    condition = node.iter if isinstance(node, ast.For) else node.test
    kind: Kind = (
        "ternary"
        if isinstance(node, ast.IfExp)
        else "for"
        if isinstance(node, ast.For)
        else "while"
        if isinstance(node, ast.While)
        else "if"
    )
    function = next((scope for scope in reversed(scopes) if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef)), scopes[-1])
    site = Site(file, node.lineno, node.col_offset, kind, ast.unparse(condition), _reads(condition, function))
    body: list[ast.AST] = [node.body] if isinstance(node, ast.IfExp) else list(node.body)
    body += [node.target] if isinstance(node, ast.For) else []
    test = None if isinstance(node, ast.For) else _span(node.test)
    jump = _span(node.iter if isinstance(node, ast.For) and sys.version_info >= (3, 13) else node)
    return Branch(site, _name(scopes[-1]), _span(node), jump, test, tuple(_span(part) for part in body))


def _span(node: ast.AST) -> Span:
    return (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def _name(scope: ast.AST) -> tuple[str, int]:
    """Name and first line of a function's code, including its decorators."""
    line = min([scope.lineno, *(decorator.lineno for decorator in getattr(scope, "decorator_list", []))])  # type: ignore[attr-defined]
    if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        return scope.name, line
    return _COMPREHENSIONS.get(type(scope), "<lambda>"), line


def _reads(condition: ast.expr, function: ast.AST) -> bool:
    names = {node.id for node in ast.walk(condition) if isinstance(node, ast.Name)}
    made = [
        node.value
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
        and _may_precede(node, condition, function)
    ]
    return any(_is_read(node) for part in [condition, *made] for node in ast.walk(part))


def _may_precede(statement: ast.stmt, condition: ast.expr, function: ast.AST) -> bool:
    """Whether a statement may run before the condition: it is before it, or in a loop around both."""
    if _span(statement)[:2] < _span(condition)[:2]:
        return True
    loops = (
        _span(node)
        for node in ast.walk(function)
        if isinstance(node, ast.While) or (isinstance(node, ast.For) and node.iter is not condition)  # evaluated once, before the body
    )
    return any(_inside(_span(statement), loop) and _inside(_span(condition), loop) for loop in loops)


def _is_read(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in READS


@cache
def at(file: str, line: int, column: int, *, loop: bool) -> Site | None:
    """The `if` or loop that begins at this position."""
    sites = (branch.site for branch in of_file(file) if (branch.site.line, branch.site.column) == (line, column))
    return next((site for site in sites if site.loops == loop and site.kind != "ternary"), None)


@cache
def ternaries(file: str, line: int, column: int) -> Sequence[Site]:
    """The ternaries of the simple statement, or in the head of the compound statement, that begins here, outer before inner."""
    statement = _statement(file, line, column)
    if statement is None:
        return []
    spans = [_span(part) for part in _head(statement)]
    return [branch.site for branch in of_file(file) if branch.site.kind == "ternary" and any(_inside(branch.span, span) for span in spans)]


@cache
def around(file: str, line: int, column: int) -> Site | None:
    """The loop whose body has a statement at this position."""
    for branch in of_file(file):
        if branch.site.loops and any(span[:2] == (line, column) for span in branch.body):
            return branch.site
    return None


@cache
def _tree(file: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return ast.Module(body=[], type_ignores=[])


def _statement(file: str, line: int, column: int) -> ast.stmt | None:
    return next(
        (node for node in ast.walk(_tree(file)) if isinstance(node, ast.stmt) and (node.lineno, node.col_offset) == (line, column)), None
    )


def _head(statement: ast.stmt) -> list[ast.AST]:
    return [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt) and hasattr(child, "lineno")]
