"""Answer requests that wait at the same time together: in as few batches of the model as may be, each with its own answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from paddleship.errors import RequestError
from paddleship.shipped.computing.preprocess import Example
from paddleship.shipped.computing.spec import Arrays, batch_dimension
from paddleship.shipped.serving.columns import Columns
from paddleship.shipped.serving.model import ServedModel


class Request(Protocol):
    """One request as a transport holds it. The methods are called in this order, on the thread that answers."""

    @property
    def size(self) -> int:
        """The bytes that it came in."""

    def is_gone(self) -> bool:
        """Whether nobody waits for the answer any more."""

    def decode(self) -> Columns:
        """The columns of its rows. Raises RequestError."""

    def encode(self, columns: Columns, outputs: Mapping[str, Any]) -> bytes:
        """The answer to its rows in the transport's form. Raises ServingError."""

    def deliver(self, outcome: bytes | BaseException) -> None:
        """Take the encoded answer, or the reason why there is none; called once."""


class Gone(RequestError):
    """The client has disconnected, so its request was not computed."""


class _Asked:
    """A request whose rows are encoded. `longest` is the number of values in its largest row."""

    def __init__(self, request: Request, columns: Columns, examples: list[Example]) -> None:
        self.request, self.columns, self.examples, self.rows = request, columns, examples, len(examples)
        self.longest = max(sum(array.size for array in example.values()) for example in examples)


class Answering:
    """Answers requests with one model, for one thread at a time. `batching`: several requests may share a batch.

    Requests share a batch if the answer to a row does not depend on its batch, which `verify` checks; then a row is padded as in a batch
    of one client. If an output has a dynamic dimension, only requests of equal shapes share a batch, so that its shape stays the same.
    """

    def __init__(self, model: ServedModel, *, batching: bool) -> None:
        self.model = model
        rows, outputs = batch_dimension(model.candidate.inputs), model.candidate.outputs
        self.batching = batching and all(spec.shape[:1] == (rows,) for spec in outputs)
        self._pads = not any(isinstance(size, str) for spec in outputs for size in spec.shape[1:])

    def answer(self, waiting: Iterable[Request]) -> None:
        """Answer every request, in batches of at most the rows that are proven. Only one request is decoded at a time."""
        batch: list[_Asked] = []
        rows = 0
        for request in waiting:
            if (asked := self._read(request)) is None:
                continue
            rows += asked.rows
            if batch and (not self.batching or rows > self.model.limits.max_batch):
                self._answer_all(batch)
                batch, rows = [], asked.rows
            batch.append(asked)
        self._answer_all(batch)

    def _read(self, request: Request) -> _Asked | None:
        """The request with its rows encoded; None if it has its outcome already."""
        try:
            if request.is_gone():
                raise Gone("the client has disconnected")
            columns = request.decode()
            return _Asked(request, columns, self.model.encode(columns))
        except Exception as failure:
            request.deliver(failure)
            return None

    def _answer_all(self, batch: Sequence[_Asked]) -> None:
        if len(batch) < 2:
            groups: Iterable[Sequence[_Asked]] = [batch] if batch else []
        elif self._pads:
            groups = _of_like_sizes(batch, self.model.call_values)
        else:
            groups = self._of_equal_shapes(batch)
        for group in groups:
            self._answer(group)

    def _of_equal_shapes(self, batch: Sequence[_Asked]) -> Iterable[list[_Asked]]:
        groups: dict[tuple[tuple[int, ...], ...], list[_Asked]] = {}
        for asked in batch:
            shapes = tuple(array.shape[1:] for array in self.model.collate(asked.examples).values())
            groups.setdefault(shapes, []).append(asked)
        return groups.values()

    def _answer(self, group: Sequence[_Asked]) -> None:
        """Run a group as one batch; if that fails, each request by itself, so that none fails because of another."""
        try:
            batch = self.model.collate([example for asked in group for example in asked.examples])
            outputs = self.model.run(batch, alone=len(group) == 1)
            parts = list(_split(outputs, [asked.rows for asked in group])) if len(group) > 1 else [outputs]
        except Exception as failure:
            if len(group) == 1:
                group[0].request.deliver(failure)
            else:
                for asked in group:
                    self._answer([asked])
            return
        for asked, part in zip(group, parts, strict=True):
            self._deliver(asked, part)

    def _deliver(self, asked: _Asked, outputs: Arrays) -> None:
        try:
            answer = self.model.finish(asked.columns, asked.examples, outputs)
            outcome: bytes | BaseException = asked.request.encode(asked.columns, answer)
        except Exception as failure:
            outcome = failure
        asked.request.deliver(outcome)


def _of_like_sizes(batch: Sequence[_Asked], call_values: float) -> Iterator[list[_Asked]]:
    """Requests in groups, in which padding costs less than a further call of the model."""
    group: list[_Asked] = []
    rows = values = 0
    for asked in sorted(batch, key=lambda one: one.longest):
        own = asked.longest * asked.rows
        if group and asked.longest * (rows + asked.rows) - (values + own) > call_values:
            yield group
            group, rows, values = [], 0, 0
        group.append(asked)
        rows, values = rows + asked.rows, values + own
    yield group


def _split(outputs: Arrays, rows: Sequence[int]) -> Iterator[Arrays]:
    """The outputs of each request. Raises ValueError for an output that has not one entry a row."""
    if odd := [name for name, array in outputs.items() if not array.ndim or len(array) != sum(rows)]:
        raise ValueError(f"output {odd[0]!r} has not one entry a row")
    start = 0
    for count in rows:
        yield {name: array[start : start + count] for name, array in outputs.items()}
        start += count
