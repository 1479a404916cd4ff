"""A tracer that records which branches eager Python takes, in the user's functions that contain an `if`, a loop or a ternary."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import numpy as np

from paddleship.controlflow import branches
from paddleship.controlflow.branches import BODY, OUTSIDE, TEST, Place, Site
from paddleship.model.eager import Eager, SourceModel
from paddleship.shipped.common.references import is_users
from paddleship.shipped.common.spec import Arrays

_Parts = tuple[list[Place], list[tuple[int, ...] | None]]
Spot = tuple[Site, str]  # a site, and the path of the sublayer that ran it ("" for the model itself)


@dataclass
class TakenBranches:
    """The ways that were taken at each spot: True and False of a condition, or the number of rounds of a loop."""

    names: Mapping[int, str] = field(default_factory=dict, repr=False)
    by_spot: dict[Spot, set[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, layer: Any) -> TakenBranches:
        """For a model, whose sublayers distinguish the spots of one site."""
        return cls({id(part): name for name, part in layer.named_sublayers(include_self=True)})

    def add(self, site: Site, layer: str, way: int) -> None:
        self.by_spot.setdefault((site, layer), set()).add(way)

    def layer(self, frame: FrameType | None) -> str:
        """The path of the sublayer whose method runs in this frame, or called the function that runs in it."""
        while frame is not None:
            if "self" in frame.f_code.co_varnames or "self" in frame.f_code.co_freevars:
                name = self.names.get(id(frame.f_locals.get("self")))
                if name is not None:
                    return name
            frame = frame.f_back
        return ""


@contextmanager
def following(taken: TakenBranches) -> Iterator[None]:
    """Record the ways that the user's functions take in the block, on this thread. Generators are not recorded."""

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        frame.f_trace_lines = False
        return follower(taken, frame)

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def follower(taken: TakenBranches, frame: FrameType) -> Callable[[FrameType, str, Any], Any] | None:
    """The trace function for a frame of the user's code with branches; None for any other frame."""
    places, table = _parts(frame.f_code)
    if not places:
        return None
    frame.f_trace_opcodes = True
    return _Follower(taken, taken.layer(frame), places, table)


# By identity: equal code in two files compares equal. The code is kept alive, because its id could be reused.
_KNOWN: dict[int, tuple[CodeType, _Parts]] = {}


def _parts(code: CodeType) -> _Parts:
    known = _KNOWN.get(id(code))
    if known is None:
        known = _KNOWN[id(code)] = (code, branches.parts(code) if is_users(code.co_filename) else ([], []))
    return known[1]


class _Follower:
    """Traces one frame by instruction; a condition is decided when the next instruction is not part of it."""

    def __init__(self, taken: TakenBranches, layer: str, places: list[Place], table: list[tuple[int, ...] | None]) -> None:
        self._taken, self._layer, self._places, self._table = taken, layer, places, table
        self._outside = (OUTSIDE,) * len(places)
        self._last: tuple[int, ...] | None = self._outside
        self._rounds = [0] * len(places)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> _Follower:
        if event == "opcode":
            here = self._table[frame.f_lasti // 2]
            if here is not None and here != self._last:
                self._move(here)
        elif event == "return":
            self._move(self._outside)
        elif event == "exception" and argument[0] is not StopIteration:
            self._last = None  # a site that is left now was not decided
        return self

    def _move(self, here: tuple[int, ...]) -> None:
        if self._last is not None:
            for index, (before, after) in enumerate(zip(self._last, here, strict=True)):
                if before != after:
                    self._pass(index, before, after)
        self._last = here

    def _pass(self, index: int, before: int, after: int) -> None:
        site = self._places[index].site
        if not site.loops:
            if before == TEST:
                self._taken.add(site, self._layer, int(after == BODY))
        elif after == BODY and before == TEST:
            self._rounds[index] += 1
        elif after == TEST and before == OUTSIDE:
            self._rounds[index] = 0  # an exception may have left the loop before
        elif after == OUTSIDE:
            self._taken.add(site, self._layer, self._rounds[index])
            self._rounds[index] = 0


class TracedEager(Eager):
    """The eager model in float32, which records the ways that its inputs took."""

    def __init__(self, source_model: SourceModel) -> None:
        super().__init__(source_model)
        self._taken = TakenBranches.of(self.layer)

    def run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        with following(self._taken):
            return super().run(inputs)

    def taken_branches(self) -> dict[Spot, set[int]]:
        """The ways at each spot, over all inputs so far."""
        return self._taken.by_spot
