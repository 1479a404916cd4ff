"""Observe an eager model while it is built and called: where layers are made and used, and which lines run.

For a child process: the patches on `paddle.nn.Layer` stay in place while it is observed.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable, Collection, Iterator
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

    `replaced` are sublayers whose name was given to another one. `cut_short`: not all of the last call was observed.
    """

    made: list[tuple[Any, str | None]] = field(default_factory=list)
    parameters: list[tuple[Any, str | None]] = field(default_factory=list)
    replaced: list[tuple[Any, str, str | None]] = field(default_factory=list)
    called: dict[int, Any] = field(default_factory=dict)
    executed: set[Line] = field(default_factory=set)
    cut_short: bool = False

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
        seen.made.append((self, caller(self)))
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
            seen.parameters.append((made, caller()))
        return made

    def loose_parameter(*arguments: Any, **options: Any) -> Any:
        made = loose(*arguments, **options)
        seen.parameters.append((made, caller()))
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
        seen.replaced.append((before, name, caller()))


def caller(layer: Any = None) -> str | None:
    """The innermost line of the user's code that runs now, outside the constructor of `layer`.

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
def lines(seen: Observations, taken: TakenBranches, *, seconds: float = math.inf) -> Iterator[None]:
    """Record the user's layers and lines that run in the block, and the outcomes of branches.

    After so many `seconds` the block goes on unobserved, at full speed, and `seen.cut_short` is set.
    """
    import paddle

    kind = paddle.nn.Layer
    end = time.monotonic() + seconds

    def local(frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
        if event == "line":
            seen.executed.add((frame.f_code.co_filename, frame.f_lineno))
        if time.monotonic() > end:
            seen.cut_short = True
            sys.settrace(None)
        return local

    def trace(frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        if frame.f_code.co_name == "forward" and isinstance(layer := frame.f_locals.get("self"), kind):
            seen.called[id(layer)] = layer
        if not is_users(frame.f_code.co_filename):
            return None
        follow = tracing.follower(taken, frame)
        return local if follow is None else _both(follow, local)

    with _traced(trace):
        yield


@contextmanager
def draws(generators: Collection[str]) -> Iterator[list[Line]]:
    """Record the user's lines in the block that draw from one of these random generators."""
    found: list[Line] = []
    last: list[Line] = []
    state = random_states(generators)

    def local(frame: FrameType, event: str, _argument: Any) -> Callable[..., Any]:
        nonlocal state
        line: Line = (frame.f_code.co_filename, frame.f_lineno)
        before, state = state, random_states(generators)
        if before != state and last and last[-1] not in found:
            found.append(last[-1])
        last[:] = [(_outer(frame) or line) if event == "return" else line]
        return local

    def trace(frame: FrameType, _event: str, _argument: Any) -> Callable[..., Any] | None:
        return local if is_users(frame.f_code.co_filename) else None

    with _traced(trace):
        yield found


@contextmanager
def _traced(trace: Callable[[FrameType, str, Any], Any]) -> Iterator[None]:
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


def random_states(generators: Collection[str] = ("paddle", "python", "numpy")) -> dict[str, Any]:
    """The states of these random generators, to be compared; too slow to be read at every line of a model that draws nothing."""
    states: dict[str, Callable[[], Any]] = {"paddle": _state_of_paddle, "python": random.getstate, "numpy": _state_of_numpy}
    return {name: states[name]() for name in generators}


def _state_of_paddle() -> tuple[str, str]:
    from paddle.base import core

    counters, _, engine = str(core.default_cpu_generator().get_state()).partition(" 0x")
    return counters, engine.partition(" ")[2]  # without the address, which changes


def _state_of_numpy() -> tuple[Any, ...]:
    state: Any = np.random.get_state()
    _, words, *rest = state
    return bytes(words), *rest
