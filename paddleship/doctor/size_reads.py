"""Find sizes that are read as -1 during conversion, in code that Paddle's to_static does not rewrite.

In code that it rewrites, `x.shape[0]` becomes a tensor. In a property, a constructor or a library it is Paddle's -1 for a dynamic
dimension, and what is computed from it is wrong. A read alone is harmless: it is the cause of an error if the model converts, or
answers as eager does, once the line reads another value.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from paddleship.conversion import exporting
from paddleship.doctor import ast_lint, memory
from paddleship.doctor.obstacle import Obstacle
from paddleship.errors import BadInput
from paddleship.model.eager import SourceModel
from paddleship.reports.finding import Finding
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.references import is_users
from paddleship.shipped.computing.spec import Arrays, TensorSpec

WRONG = "the program's answers are wrong because of it"
FAILS = "the program does not run because of it"
_MOST_READS = 4  # lines that are tried one by one; of more, all together
_SIZE = 12  # read instead of -1, to see whether another number converts; it can be halved and divided by 3

Sizes = Callable[[Any, Sequence[int]], Sequence[Any]]
Convert = Callable[[], tuple[str, str | None] | None]
"""Converts once more. Returns the error and its line, or None."""


@dataclass(frozen=True)
class Answered:
    """A batch and eager's answer."""

    inputs: Batch
    right: Arrays


@contextmanager
def watching(read: Sizes | None = None, only: Collection[str] = ()) -> Iterator[list[str]]:
    """Record the lines outside Paddle that read a shape with -1 in the block.

    With `read`, these lines (or only those in `only`) read what it returns, given the tensor and its shape.
    """
    from paddle.pir import Value

    original = vars(Value)["shape"]
    lines: list[str] = []

    def shape(value: Any) -> Sequence[Any]:
        sizes: Sequence[int] = original.fget(value)
        code = sys._getframe(1).f_code
        if min(sizes, default=0) >= 0 or not is_users(code.co_filename, libraries=True):
            return sizes
        where = f"{code.co_filename}:{sys._getframe(1).f_lineno}"
        if where not in lines:
            lines.append(where)
        return sizes if read is None or (only and where not in only) else read(value, sizes)

    Value.shape = property(shape, original.fset)
    try:
        yield lines
    finally:
        Value.shape = original


def of_error(error: tuple[str, str | None], lines: Sequence[str], convert: Convert) -> Obstacle | None:
    """The finding that one of these lines causes an error of the conversion, with the line of the error; None if none does."""

    def passes(read: Sizes, only: Collection[str] = ()) -> bool:
        with watching(read, only):
            return (again := convert()) is None or (read is _numbers and again[0] != error[0] and again[1] != error[1])

    reads = [read for read in (_tensors, _numbers) if lines and passes(read)]
    if not reads:
        return None
    return _finding(_cause(lines, partial(passes, reads[0])), error[0], as_tensor=_tensors in reads)


def of_answers(source_model: SourceModel, described: Candidate, answered: Sequence[Answered], effect: str = WRONG) -> list[Finding]:
    """The finding that such a line causes wrong answers of the exported program; none if it answers these cases as eager does.

    For a child process. `described` is the candidate.json of the program, `effect` what goes wrong with it.
    """
    specs = described.inputs

    def right(cases: Sequence[Answered], read: Sizes | None, only: Collection[str] = ()) -> bool:
        with tempfile.TemporaryDirectory() as work, suppress(Exception):  # of the conversion, and of each runtime
            with watching(read, only):
                program = exporting.save_program(source_model, Path(work), specs)
            replace(described, sources=program.sources, files={}).save(Path(work))
            runtime = runtimes.load(Path(work))
            return all(memory.same(one.right, runtime.run(one.inputs)) for one in cases)
        return False

    with watching() as lines, tempfile.TemporaryDirectory() as work, suppress(BadInput):
        exporting.save_program(source_model, Path(work), specs)
    if not lines or right(answered, None):
        return []
    if right(answered, _tensors):
        return [_finding(_cause(lines, partial(right, answered, _tensors)), effect, as_tensor=True).plain()]
    for size in _dynamic_sizes(specs, answered[0]):
        alike = [one for one in answered if _dynamic_sizes(specs, one) == {size}]
        if alike and not right(alike, None) and right(alike, partial(_numbers, number=size)):
            return [_finding(_cause(lines, partial(right, alike, partial(_numbers, number=size))), effect, as_tensor=False).plain()]
    return []


def _dynamic_sizes(specs: Sequence[TensorSpec], one: Answered) -> set[int]:
    """The sizes of the dynamic dimensions of a batch."""
    return {one.inputs[spec.name].shape[axis] for spec in specs for axis, size in enumerate(spec.shape) if isinstance(size, str)}


def _cause(lines: Sequence[str], passes: Callable[[Collection[str]], bool]) -> Sequence[str]:
    """The line that alone is the cause, or all of them."""
    if len(lines) == 1 or len(lines) > _MOST_READS:
        return lines
    return next(([line] for line in lines if passes([line])), lines)


def _finding(lines: Sequence[str], effect: str, *, as_tensor: bool) -> Obstacle:
    where = lines[0]
    shapes = [suspect.text for suspect in ast_lint.at(where) if suspect.pattern == "frozen-dimension" and suspect.text.endswith(".shape")]
    shape = shapes[0] if shapes else "x.shape"
    others = f" (also read at {', '.join(lines[1:])})" if len(lines) > 1 else ""
    message = (
        f"this line reads {shape} outside the code that to_static rewrites (as a property, a constructor or a library is), where a dynamic "
        f"dimension is -1 during conversion{others}: {effect}"
    )
    tensor = f"paddle.shape({shape.removesuffix('.shape')})"
    advice = f"write {tensor} instead of {shape} here, or read the size in forward and pass it on"
    if not as_tensor:
        advice = f"the code that uses it needs a number: compute it from {tensor} with tensors, or declare the dimension as a number"
    return Obstacle("unknown-size", "error", message, advice, where)


def _tensors(value: Any, sizes: Sequence[int]) -> Sequence[Any]:
    """What to_static makes of a shape."""
    import paddle

    shape = paddle.shape(value)
    return [shape[axis] if size < 0 else size for axis, size in enumerate(sizes)]


def _numbers(_value: Any, sizes: Sequence[int], number: int = _SIZE) -> Sequence[int]:
    return [number if size < 0 else size for size in sizes]
