"""Which conditions a conversion put into the program, and which it decided in Python.

Paddle rewrites the user's functions: an `if` or ternary becomes a call of `_jst.IfElse`, a loop a call of `_jst.While`. A condition
that is a value of the program becomes `pd_op.if` or `pd_op.while`. Any other condition is decided during the conversion, for all
inputs. Code that Paddle does not rewrite runs unchanged and is traced like eager code.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import CodeType, FrameType
from typing import Any

from paddleship.controlflow import branches
from paddleship.controlflow.branches import Site, Span
from paddleship.controlflow.tracing import BranchKey, TakenBranches, following
from paddleship.shipped.computing.references import is_users

_REWRITTEN = "/to_static_tmp/"  # in the names of the files of rewritten code


@dataclass
class Decisions:
    """The decision at each branch: `regions` are in the program; `taken` are the outcomes in Python (0, 1, or rounds of a loop).

    `constants` are conditions for which Python read a tensor that the program does not compute. `reads`: code of the user read the value
    of any such tensor.
    """

    taken: TakenBranches
    regions: set[BranchKey] = field(default_factory=set)
    constants: set[BranchKey] = field(default_factory=set)
    reads: bool = False

    def note(self, site: Site, layer: str, condition: Any, outcome: Callable[[], int]) -> None:
        import paddle

        if isinstance(condition, paddle.pir.Value):
            self.regions.add((site, layer))
            return
        if isinstance(condition, paddle.Tensor):
            self.constants.add((site, layer))
        self.taken.add(site, layer, outcome())


@contextmanager
def watching(layer: Any) -> Iterator[Decisions]:
    """Record every decision of the conversions in the block. For a process that converts and then ends."""
    import paddle
    from paddle.jit import dy2static, not_to_static
    from paddle.jit.dy2static import program_translator

    decisions = Decisions(TakenBranches.of(layer))
    originals = (dy2static.IfElse, dy2static.While, program_translator._FUNCTION_CACHE._code_to_ast_caches)

    def choose(condition: Any, *arguments: Any, **options: Any) -> Any:
        frame = sys._getframe(1)
        if site := _choice(frame):
            decisions.note(site, decisions.taken.layer(frame), condition, lambda: int(bool(condition)))
        return originals[0](condition, *arguments, **options)

    def repeat(condition: Callable[[], Any], body: Callable[[], Any], *arguments: Any, **options: Any) -> Any:
        frame = sys._getframe(1)
        rounds = _Rounds(condition, body)
        result = originals[1](rounds.ask, rounds.go, *arguments, **options)
        if site := _loop(frame, body):
            decisions.note(site, decisions.taken.layer(frame), rounds.first, lambda: rounds.count)
        return result

    def noting(read: Callable[..., Any]) -> Callable[..., Any]:
        def noted(tensor: Any, *arguments: Any, **options: Any) -> Any:
            file = sys._getframe(1).f_code.co_filename
            decisions.reads = decisions.reads or is_users(file) or _REWRITTEN in file
            return read(tensor, *arguments, **options)

        return not_to_static(noted)  # type: ignore[no-any-return]

    reading = {name: getattr(paddle.Tensor, name) for name in branches.READS}
    try:
        dy2static.IfElse, dy2static.While = not_to_static(choose), not_to_static(repeat)
        program_translator._FUNCTION_CACHE._code_to_ast_caches = _NeverCached()
        for name, read in reading.items():
            setattr(paddle.Tensor, name, noting(read))
        with following(decisions.taken):
            yield decisions
    finally:
        for name, read in reading.items():
            setattr(paddle.Tensor, name, read)
        dy2static.IfElse, dy2static.While = originals[:2]
        program_translator._FUNCTION_CACHE._code_to_ast_caches = originals[2]


class _NeverCached(dict[str, Any]):
    """Turns off Paddle's cache of rewritten functions, whose key is their text: two equal functions would have the lines of the first."""

    def __contains__(self, key: object) -> bool:
        return False


class _Rounds:
    """A loop under observation: its first condition, and the number of calls of its body."""

    def __init__(self, condition: Callable[[], Any], body: Callable[[], Any]) -> None:
        self._condition, self._body = condition, body
        self._results: list[Any] = []
        self.count = 0

    @property
    def first(self) -> Any:
        return self._results[0]

    def ask(self) -> Any:
        result = self._condition()
        self._results = self._results or [result]
        return result

    def go(self) -> None:
        self.count += 1
        self._body()


def _choice(frame: FrameType) -> Site | None:
    """The `if` or ternary of the rewritten call in this frame; None for one that Paddle added."""
    line, calls = _calls(frame.f_code.co_filename, frame.f_lineno)
    origin = _mapped(frame.f_code.co_filename, line)
    position = _position(frame)
    if origin is None or position not in calls:
        return None
    statement = branches.at(*origin, loop=False)
    sites = [*([statement] if statement else []), *branches.ternaries(*origin)]
    return sites[calls.index(position)] if len(sites) == len(calls) else None


def _loop(frame: FrameType, body: Callable[[], Any]) -> Site | None:
    """The loop of the rewritten call; if Paddle created the loop, it is found by the statements in its body."""
    origin = _mapped(frame.f_code.co_filename, frame.f_lineno)
    if origin is not None and (site := branches.at(*origin, loop=True)):
        return site
    code: CodeType = body.__code__
    lines = {line for _, _, line in code.co_lines() if line is not None}
    inside = sorted(mapped for line in lines if (mapped := _mapped(code.co_filename, line)) is not None)
    return next((site for position in inside if (site := branches.around(*position))), None)


def _mapped(file: str, line: int) -> tuple[str, int, int] | None:
    """File, line and column of the user's statement for a line of rewritten code."""
    from paddle.jit.dy2static.origin_info import global_origin_info_map

    origin_info = global_origin_info_map.get((file, line))
    if origin_info is None or not is_users(origin_info.location.filepath):
        return None
    return origin_info.location.filepath, origin_info.location.lineno, origin_info.location.col_offset


def _position(frame: FrameType) -> Span | None:
    line, last, column, end = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    return None if line is None or last is None or column is None or end is None else (line, column, last, end)


@cache
def _calls(file: str, line: int) -> tuple[int, list[Span]]:
    """First line of the rewritten statement at `line`, and the positions of its calls of `_jst.IfElse`, outer before inner."""
    statements = (node for node in ast.walk(_rewritten(file)) if isinstance(node, ast.stmt) and not hasattr(node, "body"))
    statement = next((node for node in statements if node.lineno <= line <= (node.end_lineno or node.lineno)), None)
    return (line, []) if statement is None else (statement.lineno, list(_choices(statement)))


@cache
def _rewritten(file: str) -> ast.Module:
    return ast.parse("".join(linecache.getlines(file)))


def _choices(node: ast.AST) -> Iterator[Span]:
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("_jst.Call(_jst.IfElse)", "_jst.IfElse"):
        yield node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    for child in ast.iter_child_nodes(node):
        yield from _choices(child)
