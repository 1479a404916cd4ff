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
from paddleship.controlflow.branches import BODY, OUTSIDE, TEST, Branch, Site
from paddleship.model.eager import Eager, SourceModel
from paddleship.shipped.computing.references import is_users
from paddleship.shipped.computing.spec import Arrays

_Parts = tuple[list[Branch], list[tuple[int, ...] | None]]
BranchKey = tuple[Site, str]  # a site, and the path of the sublayer that ran it ("" for the model itself)


@dataclass
class TakenBranches:
    """The outcomes of each branch: 0 and 1 of a condition, the numbers of rounds of a loop."""

    names: Mapping[int, str] = field(default_factory=dict, repr=False)
    by_branch: dict[BranchKey, set[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, layer: Any) -> TakenBranches:
        """For a model, whose sublayers are distinguished at each site."""
        return cls({id(part): name for name, part in layer.named_sublayers(include_self=True)})

    def add(self, site: Site, layer: str, outcome: int) -> None:
        self.by_branch.setdefault((site, layer), set()).add(outcome)

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
    """Record the outcomes of the branches in the user's functions in the block, on this thread. Generators are not recorded."""

    def trace(frame: FrameType, _event: str, _argument: Any) -> Any:
        frame.f_trace_lines = False
        return follower(taken, frame)

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 traces no instruction unless a frame asked for it before
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def follower(taken: TakenBranches, frame: FrameType) -> Callable[[FrameType, str, Any], Any] | None:
    """The trace function for a frame of the user's code with branches; None for any other frame."""
    branches, table = _parts(frame.f_code)
    if not branches:
        return None
    frame.f_trace = traced = _Follower(taken, taken.layer(frame), branches, table)
    frame.f_trace_opcodes = True  # after f_trace: else Python 3.13 begins with the next call
    return traced


# By identity: equal code in two files compares equal. The code is kept alive, because its id could be reused.
_KNOWN: dict[int, tuple[CodeType, _Parts]] = {}


def _parts(code: CodeType) -> _Parts:
    known = _KNOWN.get(id(code))
    if known is None:
        known = _KNOWN[id(code)] = (code, branches.parts(code) if is_users(code.co_filename) else ([], []))
    return known[1]


class _Follower:
    """Traces one frame by instruction; a condition is decided when the next instruction is not part of it."""

    def __init__(self, taken: TakenBranches, layer: str, branches: list[Branch], table: list[tuple[int, ...] | None]) -> None:
        self._taken, self._layer, self._branches, self._table = taken, layer, branches, table
        self._outside = (OUTSIDE,) * len(branches)
        self._last: tuple[int, ...] | None = self._outside
        self._rounds = [0] * len(branches)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> _Follower:
        if event == "opcode":
            position = self._table[frame.f_lasti // 2]
            if position is not None and position != self._last:
                self._move(position)
        elif event == "return":
            self._move(self._outside)
        elif event == "exception" and argument[0] is not StopIteration:
            self._last = None  # a site that is left now was not decided
        return self

    def _move(self, position: tuple[int, ...]) -> None:
        if self._last is not None:
            for index, (before, after) in enumerate(zip(self._last, position, strict=True)):
                if before != after:
                    self._pass(index, before, after)
        self._last = position

    def _pass(self, index: int, before: int, after: int) -> None:
        site = self._branches[index].site
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
    """The eager model in float32, which records the outcomes of branches."""

    def __init__(self, source_model: SourceModel) -> None:
        super().__init__(source_model)
        self._taken = TakenBranches.of(self.layer)

    def run(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> Arrays:
        with following(self._taken):
            return super().run(inputs)

    def taken_branches(self) -> dict[BranchKey, set[int]]:
        """The outcomes of each branch, over all inputs so far."""
        return self._taken.by_branch
