"""Ask the service from an event loop: the future of an answer, and requests that come in one turn of the loop answered together."""

from __future__ import annotations

import asyncio
import math
import threading
import time

from paddleship.shipped.serving.batching import Request
from paddleship.shipped.serving.service import Service

_LARGE_BYTES, _TAKEN_S = 2**18, 1.0


class PendingAnswer:
    """The future of an answer in the event loop that reads the request. The model answers on any thread.

    The request `arrived` then, and nobody wants the answer after `deadline`, by `time.perf_counter`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, arrived: float = 0.0, deadline: float = math.inf) -> None:
        self.arrived, self.deadline = arrived or time.perf_counter(), deadline
        self._loop, self._reader = loop, threading.get_ident()
        self.answer: asyncio.Future[bytes] = loop.create_future()

    def deliver(self, outcome: bytes | BaseException) -> None:
        """Give the answer to the event loop; a large one is waited for, so that no more of them are made than can be sent."""
        if threading.get_ident() == self._reader:
            self._set(outcome)
            return
        taken = threading.Event() if isinstance(outcome, bytes) and len(outcome) > _LARGE_BYTES else None
        self._loop.call_soon_threadsafe(self._set, outcome, taken)
        if taken is not None:
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


class Asking:
    """Asks a service for one transport; what comes in one turn of the event loop is answered together."""

    def __init__(self, service: Service) -> None:
        self._service, self._scheduled = service, False

    def ask(self, request: Request) -> None:
        """Raises ServingError (STOPPING, or BUSY for one that would wait too long)."""
        self._service.ask(request)
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._answer_waiting)

    def _answer_waiting(self) -> None:
        self._scheduled = False
        if self._service.answer_waiting():
            self._schedule()
