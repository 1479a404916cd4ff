"""Answer requests that wait at the same time together: in as few batches of the model as may be, each with its own answer."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from paddleship.errors import RequestError
from paddleship.shipped.computing.preprocess import Example
from paddleship.shipped.computing.spec import Arrays, batch_dimension, row_dimensions
from paddleship.shipped.serving.columns import Columns
from paddleship.shipped.serving.errors import Kind, ServingError, expired, kind_of
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.settings import Settings
from paddleship.shipped.serving.stages import Stages

log = logging.getLogger("paddleship.shipped.serving")

Shapes = list[tuple[int, ...]]
_FAILURES = (Exception, SystemExit)  # of code that a user registered, too


class Request(Protocol):
    """One request as a transport holds it. The methods are called in this order, on the thread that answers."""

    @property
    def size(self) -> int:
        """The bytes that it came in."""

    @property
    def arrived(self) -> float:
        """When its first byte came, by `time.perf_counter`."""

    @property
    def deadline(self) -> float:
        """When nobody wants the answer any more, by `time.perf_counter`; infinite if the client has not said."""

    def is_gone(self) -> bool:
        """Whether nobody waits for the answer any more."""

    def decode(self) -> Columns:
        """The columns of its rows. Raises RequestError."""

    def encode(self, outputs: Mapping[str, Any], cuts: Sequence[Mapping[str, Any]]) -> bytes:
        """The answer to its rows in the transport's form, with the texts of which only the beginning was read. Raises ServingError."""

    def deliver(self, outcome: bytes | BaseException) -> None:
        """Take the encoded answer, or the reason why there is none; called once."""


class Gone(RequestError):
    """The client has disconnected, so its request was not computed."""


class _Asked:
    """A request whose rows are encoded. `shapes` are those of each input in its own batch, without the rows.

    It left the queue when it was `begun`, and its rows were `encoded` then.
    """

    def __init__(self, request: Request, columns: Columns, examples: list[Example], shapes: Shapes) -> None:
        self.request, self.columns, self.examples, self.rows = request, columns, examples, len(examples)
        self.shapes, self.values = shapes, len(examples) * _volume(shapes)
        self.begun = self.encoded = 0.0


class Answering:
    """Answers requests with one model, for one thread at a time. `settings` say whether several may share a batch, and be padded for it.

    If an output has a dynamic dimension, only requests of equal shapes share a batch, so that its shape stays the same. `stages` counts how
    long each stage takes.
    """

    def __init__(self, model: ServedModel, settings: Settings, stages: Stages | None = None) -> None:
        self.model, self.stages = model, stages or Stages()
        rows, outputs = batch_dimension(model.candidate.inputs), model.candidate.outputs
        self.batching = settings.batching and all(spec.shape[:1] == (rows,) for spec in outputs)
        self._pads = settings.padding and not any(isinstance(size, str) for spec in outputs for size in spec.shape[1:])
        self._rounds = self.batching and not self._pads and bool(row_dimensions(model.candidate.inputs))

    def answer(self, waiting: deque[Request]) -> None:
        """Answer every request, in batches of at most the rows that are proven; each is taken from `waiting`, and let go once answered.

        Only one request is decoded at a time. A defect of this server leaves none without an outcome.
        """
        batch: list[_Asked] = []
        rows = 0
        try:
            while waiting:
                if (asked := self._read(waiting.popleft())) is None:
                    continue
                rows += asked.rows
                if batch and (not self.batching or rows > self.model.limits.max_batch):
                    self._answer_all(batch)
                    batch.clear()
                    rows = asked.rows
                batch.append(asked)
            self._answer_all(batch)
        except Exception as failure:
            for request in (*(asked.request for asked in batch), *waiting):
                fail(request, failure)
            waiting.clear()

    def _read(self, request: Request) -> _Asked | None:
        """The request with its rows encoded; None if it has its outcome already."""
        begun = time.perf_counter()
        try:
            if request.is_gone():
                raise Gone("the client has disconnected")
            if request.deadline < begun:
                raise expired()
            columns = request.decode()
            examples = self.model.encode(columns)
            asked = _Asked(request, columns, examples, self._shapes(examples))
        except _FAILURES as failure:
            fail(request, failure)
            return None
        asked.begun, asked.encoded = begun, time.perf_counter()
        return asked

    def _shapes(self, examples: Sequence[Example]) -> Shapes:
        """The shapes of the batch that rows make; without its rounding to larger sizes, unless it decides which requests are alike."""
        if self._rounds:
            return [array.shape[1:] for array in self.model.collate(examples).values()]
        return [tuple(map(max, zip(*(one[name].shape for one in examples), strict=True))) for name in examples[0]]

    def _answer_all(self, batch: Sequence[_Asked]) -> None:
        for group in _groups(batch, self.model.call_values if self._pads else None):
            self._answer(group)

    def _answer(self, group: Sequence[_Asked]) -> None:
        """Run a group as one batch; if that fails, each request by itself, so that none fails because of another."""
        begun = time.perf_counter()
        try:
            batch = self.model.collate([example for asked in group for example in asked.examples])
            outputs = self.model.run(batch, alone=len(group) == 1)
            parts = list(_split(outputs, [asked.rows for asked in group])) if len(group) > 1 else [outputs]
        except _FAILURES as failure:
            if len(group) == 1:
                fail(group[0].request, failure)
            else:
                for asked in group:
                    self._answer([asked])
            return
        self.stages.ran(len(group), sum(asked.rows for asked in group), time.perf_counter() - begun)
        for asked, part in zip(group, parts, strict=True):
            self._deliver(asked, part)

    def _deliver(self, asked: _Asked, outputs: Arrays) -> None:
        begun = time.perf_counter()
        try:
            answer = self.model.finish(asked.columns, asked.examples, outputs)
            encoded = asked.request.encode(answer, self.model.cuts(asked.columns, asked.examples))
        except _FAILURES as failure:
            fail(asked.request, failure)
        else:
            ended, arrived = time.perf_counter(), asked.request.arrived
            self.stages.answered(asked.begun - arrived, asked.encoded - asked.begun, ended - begun, ended - arrived)
            asked.request.deliver(encoded)


def fail(request: Request, failure: BaseException) -> None:
    """Deliver the reason why there is no answer, without the frames in which it was raised: these hold the request and its values."""
    if (kind := kind_of(failure)) is Kind.DEFECT:
        log.error("a request failed", exc_info=failure)
        failure = ServingError(kind, "a defect")
    failure.__traceback__ = failure.__context__ = failure.__cause__ = None
    request.deliver(failure)


def _groups(batch: Sequence[_Asked], call_values: float | None) -> Iterator[list[_Asked]]:
    """Requests in groups of equal shapes, or with `call_values`, in which padding costs less than a further call of the model."""
    group: list[_Asked] = []
    rows, values, shapes = 0, 0, list[tuple[int, ...]]()
    for asked in sorted(batch, key=lambda one: (one.values // one.rows, one.shapes)):
        common = _common(shapes, asked.shapes) if group else asked.shapes
        extra = (rows + asked.rows) * _volume(common) - values - asked.values
        if group and (extra > call_values if call_values is not None else asked.shapes != shapes):
            yield group
            group, rows, values, common = [], 0, 0, asked.shapes
        group.append(asked)
        rows, values, shapes = rows + asked.rows, values + asked.values, common
    if group:
        yield group


def _common(one: Shapes, other: Shapes) -> Shapes:
    """The shapes that rows of two batches are padded to."""
    return [tuple(map(max, *pair)) for pair in zip(one, other, strict=True)]


def _volume(shapes: Shapes) -> int:
    return sum(map(math.prod, shapes))


def _split(outputs: Arrays, rows: Sequence[int]) -> Iterator[Arrays]:
    """The outputs of each request. Raises ValueError for an output that has not one entry a row."""
    if odd := [name for name, array in outputs.items() if not array.ndim or len(array) != sum(rows)]:
        raise ValueError(f"output {odd[0]!r} has not one entry a row")
    start = 0
    for count in rows:
        yield {name: array[start : start + count] for name, array in outputs.items()}
        start += count
