"""One request over HTTP, from its body to the future of its answer."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paddleship.shipped.serving.columns import Columns
from paddleship.shipped.serving.transports.http import deadlines
from paddleship.shipped.serving.transports.http.bodies import Body
from paddleship.shipped.serving.transports.http.inference import JsonModel

ASKED = "paddleship.asked"  # in the scope of a request: its HttpRequest
_LARGE_BYTES, _TAKEN_S = 2**18, 1.0


class HttpRequest:
    """One request: its body, and the future of its answer in the event loop that reads it. The model answers it on any thread.

    It `arrived` then, and nobody wants the answer after `deadline`, by `time.perf_counter`. `number` is the id in its body, once that is
    decoded.
    """

    def __init__(
        self,
        model: JsonModel,
        body: Body,
        *,
        is_gone: Callable[[], bool],
        loop: asyncio.AbstractEventLoop,
        arrived: float = 0.0,
        deadline: float = math.inf,
    ) -> None:
        self._model, self._body, self._loop, self.is_gone = model, body, loop, is_gone
        self.arrived, self.deadline = arrived or time.perf_counter(), deadline
        self._reader = threading.get_ident()
        self.number: str | None = None
        self._wanted: Sequence[str] = ()
        self.answer: asyncio.Future[bytes] = loop.create_future()

    @property
    def size(self) -> int:
        return len(self._body.content)

    def decode(self) -> Columns:
        """The columns of the body, JSON or the value of the one column of the model. Raises RequestError, and ServingError (EXPIRED)."""
        if self._body.raw:
            return self._model.columns_of_raw(self._body.content)
        request = self._model.parse(self._body.content)
        columns = self._model.columns(request)
        deadlines.of_parameters(request, self.arrived)
        self.number, self._wanted = request.get("id"), self._model.wanted(request)
        return columns

    def encode(self, columns: Columns, outputs: Mapping[str, Any]) -> bytes:
        """The answer in JSON. Raises ServingError."""
        return self._model.reply(columns, outputs, number=self.number, wanted=self._wanted)

    def deliver(self, outcome: bytes | BaseException) -> None:
        """Give the answer to the event loop; a large one is waited for, so that no more of them are made than can be sent."""
        if threading.get_ident() == self._reader:
            self._set(outcome)
            return
        taken = threading.Event()
        self._loop.call_soon_threadsafe(self._set, outcome, taken)
        if isinstance(outcome, bytes) and len(outcome) > _LARGE_BYTES:
            taken.wait(_TAKEN_S)

    def _set(self, outcome: bytes | BaseException, taken: threading.Event | None = None) -> None:
        if taken is not None:
            self._loop.call_soon(self._loop.call_soon, taken.set)  # after the task has written the answer
        if self.answer.done():  # it was cancelled
            return
        if isinstance(outcome, BaseException):
            self.answer.set_exception(outcome)
        else:
            self.answer.set_result(outcome)
