"""Answer LoadGen's queries: where they are issued, or from a queue.

Exceptions must not reach LoadGen, because they would end the process. An error is stored, later queries are completed without an answer,
and the error is raised after LoadGen has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

from paddleship.loadgen.scenarios import Answer, Scenario, Server

Complete = Callable[[Sequence[Any]], None]
"""Tells LoadGen that these samples are answered; its clock stops for them."""


class Direct:
    """Answers a query where it is issued, in parts of as many rows as the scenario allows."""

    def __init__(self, scenario: Scenario, answer: Answer, complete: Complete) -> None:
        self.answered = 0
        self.error: BaseException | None = None
        self._answer = answer
        self._size = scenario.rows_at_once
        self._complete = complete

    def fail(self, error: BaseException) -> None:
        self.error = self.error or error

    def run(self, start: Callable[[], None]) -> None:
        start()

    def issue(self, samples: Sequence[Any]) -> None:
        for first in range(0, len(samples), self._size):
            self._handle(samples[first : first + self._size])

    def flush(self) -> None:
        """Nothing is left: `issue` has answered all queries."""

    def _handle(self, samples: Sequence[Any]) -> None:
        try:
            if self.error is None:
                self._answer([sample.index for sample in samples])
                self.answered += len(samples)
        except BaseException as error:
            self.fail(error)
        self._complete(samples)


class Queued(Direct):
    """Answers queries from a queue, in the thread that called `run`; LoadGen issues them from another thread.

    After an error, or if too many queries wait, nothing more is answered: LoadGen sees the queue exceed its limit and ends the run early;
    then all queries in the queue are completed.
    """

    def __init__(self, scenario: Server, answer: Answer, complete: Complete) -> None:
        super().__init__(scenario, answer, complete)
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._issued = self._completed = 0
        self._limit = scenario.max_waiting
        self._overloaded = False

    def run(self, start: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._issue_all, args=(start,), name="loadgen")
        thread.start()
        self._work()
        thread.join()

    def issue(self, samples: Sequence[Any]) -> None:
        self._issued += len(samples)
        self._overloaded = self._overloaded or self._issued - self._completed > self._limit
        for sample in samples:
            self._queue.put(sample)

    def flush(self) -> None:
        self._queue.put(None)

    def _issue_all(self, start: Callable[[], None]) -> None:
        try:
            start()
        except BaseException as error:
            self.fail(error)
        finally:
            self._queue.put(None)

    def _work(self) -> None:
        held: list[Any] = []
        more = True
        while more:
            batch, more = self._waiting()
            if self._overloaded or self.error is not None:
                held += batch
            elif batch:
                self._handle(batch)
                self._completed += len(batch)
        self._complete(held)

    def _waiting(self) -> tuple[list[Any], bool]:
        """Wait for a query, and take the following ones that fit into a batch; False if none will follow."""
        batch = [self._queue.get()]
        while batch[-1] is not None and len(batch) < self._size and not self._queue.empty():
            batch.append(self._queue.get())
        return (batch[:-1], False) if batch[-1] is None else (batch, True)
