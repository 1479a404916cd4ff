"""Find the line of the user's code that an operator of the program comes from, in the call stack that the program keeps of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from paddleship.model import building
from paddleship.model.eager import SourceModel
from paddleship.shipped.computing.references import is_users
from paddleship.shipped.computing.spec import TensorSpec

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in')
_DIALECT = "pd_op."


def find(source_model: SourceModel, specs: Sequence[TensorSpec], names: Sequence[str]) -> str | None:
    """`file:line` of the first operator with one of these names; None if the program has no line for it.

    For a child process. A name has no underscore at its end, which operators that work in place have.
    """
    layer = source_model.build()
    building.restore(layer, source_model.checkpoint)
    layer.eval()
    forward_arguments = building.form(layer, source_model.model).give({spec.name: spec for spec in specs})
    program = building.to_static(layer, forward_arguments).forward.concrete_program.main_program
    made = [operator for operator in _operators(program.global_block()) if operator.name().removeprefix(_DIALECT).rstrip("_") in names]
    return next((where for operator in made if (where := _line(operator))), None)


def _operators(block: Any) -> Iterator[Any]:
    """The operators of a block, with those of the blocks inside it."""
    for operator in block.ops:
        yield operator
        for inner in operator.blocks():
            yield from _operators(inner)


def _line(operator: Any) -> str | None:
    """The innermost line of the user's code in the call stack of an operator, or of an installed package's if there is none."""
    frames = [(file, line) for file, line in _FRAME.findall("\n".join(operator.callstack))]
    for libraries in (False, True):
        if users := [f"{file}:{line}" for file, line in frames if is_users(file, libraries=libraries)]:
            return users[-1]
    return None
