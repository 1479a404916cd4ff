"""Observe an eager model while it is built and called: where layers are made and used, and which lines run.

For a child process: the patches on `paddle.nn.Layer` stay in place while it is observed.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np

from paddleship.controlflow import tracing
from paddleship.controlflow.tracing import TakenBranches
from paddleship.doctor.ast_lint import Line
from paddleship.shipped.computing.references import is_users

_Trace = Callable[[FrameType, str, Any], Any]


@dataclass
class Observations:
    """The observations. Layers and parameters are kept alive, with the user's line, so that their ids are not reused.

    `replaced` are sublayers whose name was given to another one.
    """

    made: list[tuple[Any, str | None]] = field(default_factory=list)
    parameters: list[tuple[Any, str | None]] = field(default_factory=list)
    replaced: list[tuple[Any, str, str | None]] = field(default_factory=list)
    called: dict[int, Any] = field(default_factory=dict)
    executed: set[Line] = field(default_factory=set)
    random: list[Line] = field(default_factory=list)

    def made_at(self, layer: Any) -> str | None:
        return next((where for other, where in self.made if other is layer), None)


@contextmanager
def layers(seen: Observations | None = None) -> Iterator[Observations]:
    """Record every layer and parameter that is made or replaced in the block."""
    import paddle

    seen = seen or Observations()
    kind = paddle.nn.Layer
    originals = {name: getattr(kind, name) for name in ("__init__", "__setattr__", "add_sublayer", "create_parameter")}
    loose = paddle.create_parameter

    def born(self: Any, *arguments: Any, **options: Any) -> None:
        seen.made.append((self, _caller(self)))
        originals["__init__"](self, *arguments, **options)

    def assigned(self: Any, name: str, value: Any) -> None:
        _note_replaced(seen, self, name, value)
        originals["__setattr__"](self, name, value)

    def added(self: Any, name: str, sublayer: Any) -> Any:
        _note_replaced(seen, self, name, sublayer)
        return originals["add_sublayer"](self, name, sublayer)

    def parameter(self: Any, *arguments: Any, **options: Any) -> Any:
        made = originals["create_parameter"](self, *arguments, **options)
        if made is not None:
            seen.parameters.append((made, _caller(None)))
        return made

    def loose_parameter(*arguments: Any, **options: Any) -> Any:
        made = loose(*arguments, **options)
        seen.parameters.append((made, _caller(None)))
        return made

    patches = {"__init__": born, "__setattr__": assigned, "add_sublayer": added, "create_parameter": parameter}
    try:
        for name, patch in patches.items():
            setattr(kind, name, patch)
        paddle.create_parameter = loose_parameter
        yield seen
    finally:
        paddle.create_parameter = loose
        for name, original in originals.items():
            setattr(kind, name, original)


def _note_replaced(seen: Observations, owner: Any, name: str, value: Any) -> None:
    import paddle

    before = owner.__dict__.get("_sub_layers", {}).get(name)
    if isinstance(before, paddle.nn.Layer) and isinstance(value, paddle.nn.Layer) and before is not value:
        seen.replaced.append((before, name, _caller(None)))


def _caller(layer: Any) -> str | None:
    """The innermost line of the user's code outside the layer's own constructor.

    Constructors are recognised by their code: reading a frame's locals would write "self" back into a `locals()` that the user keeps, as
    Paddle's transformer layers do.
    """
    own = {getattr(vars(kind).get("__init__"), "__code__", None) for kind in type(layer).__mro__}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code not in own and is_users(code.co_filename):
            return f"{code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None


@contextmanager
def lines(seen: Observations, taken: TakenBranches, *, randomness: bool = False) -> Iterator[None]:
    """Record the user's layers and lines that run in the block, the outcomes of branches, and optionally lines that draw random numbers."""
    import paddle

    kind = paddle.nn.Layer
    state = _Randomness() if randomness else None
    last: list[Line] = []

    def local(frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
        line = (frame.f_code.co_filename, frame.f_lineno)
        if state is not None and state.changed() and last and last[-1] not in seen.random:
            seen.random.append(last[-1])
        if event == "line":
            seen.executed.add(line)
        if event == "return":
            line = _outer(frame) or line
        last[:] = [line]
        return local

    def trace(frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_name == "forward" and isinstance(layer := frame.f_locals.get("self"), kind):
            seen.called[id(layer)] = layer
        if not is_users(frame.f_code.co_filename):
            return None
        follow = tracing.follower(taken, frame)
        return local if follow is None else _both(follow, local)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _both(follow: _Trace, local: _Trace) -> _Trace:
    """A trace function that follows each instruction and records each line."""

    def step(frame: FrameType, event: str, argument: Any) -> _Trace:
        follow(frame, event, argument)
        if event != "opcode":
            local(frame, event, argument)
        return step

    return step


def _outer(frame: FrameType) -> Line | None:
    """The line of the user's code that continues after this function returns."""
    outer = frame.f_back
    while outer is not None and not is_users(outer.f_code.co_filename):
        outer = outer.f_back
    return (outer.f_code.co_filename, outer.f_lineno) if outer is not None else None


class _Randomness:
    """Whether a random generator of Paddle, numpy or Python has advanced since the last call."""

    def __init__(self) -> None:
        self._seen = self._states()

    def changed(self) -> bool:
        before, self._seen = self._seen, self._states()
        return before != self._seen

    def _states(self) -> tuple[Any, ...]:
        from paddle.base import core

        drawn = [word for word in str(core.default_cpu_generator().get_state()).split() if not word.startswith("0x")]  # addresses change
        return drawn, random.getstate(), repr(np.random.get_state())
