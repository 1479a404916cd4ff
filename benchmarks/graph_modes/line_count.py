"""Count lines of code by the same rule for all modes."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterable
from typing import Any

RULE = (
    "Lines that hold code (no blank lines, comments or docstrings) of what this mode needs to describe the network, train it, answer, "
    "save it and load it again; what the framework brings counts as the line that calls it."
)


def count(parts: Iterable[Any]) -> int:
    """Lines of code of functions and classes, each counted once."""
    return sum(len(_code_lines(textwrap.dedent(inspect.getsource(part)))) for part in dict.fromkeys(parts))


def _code_lines(source: str) -> set[int]:
    """Lines with code, without comments and docstrings."""
    tree = ast.parse(source)
    docstrings: set[int] = set()
    for found in ast.walk(tree):
        if isinstance(found, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(found) is not None:
            first = found.body[0]
            docstrings |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines = {number for number, line in enumerate(source.splitlines(), 1) if line.strip() and not line.strip().startswith("#")}
    return lines - docstrings
