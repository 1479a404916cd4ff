"""A deadline for a block of work: it limits the time of every child process that the block starts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Deadline:
    """`seconds` from now."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left; 0 after the deadline."""
        return max(0.0, self._end - time.monotonic())

    @property
    def over(self) -> bool:
        return self.left() < 0.01  # tolerance for rounding of clock and floats

    @contextmanager
    def binding(self) -> Iterator[None]:
        """A block whose child processes end at the deadline, and then raise OutOfTime."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


_CURRENT: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


def current() -> Deadline | None:
    """The deadline of the innermost block; None without one."""
    return _CURRENT.get()


def over() -> bool:
    """Whether the deadline of the innermost block is over."""
    return (bound := current()) is not None and bound.over


def with_deadline(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Wrap a function so that it runs with this deadline in another thread."""
    context = copy_context()
    return lambda *arguments, **options: context.copy().run(function, *arguments, **options)
