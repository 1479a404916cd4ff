"""The queue of requests: bounded by number and by the time that they would wait, and fair between small requests and large ones.

Requests wait in classes by size. A class that has had less of the model's time goes first, and a turn is about one batch of one class, so
that a client with large batches makes small requests wait for one of them at most. Within a class, the first to come is the first.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque

from paddleship.shipped.serving.batching import Request
from paddleship.shipped.serving.errors import Kind, ServingError

SMALL_BYTES = 2**11  # of the requests of the first class; those of the next have up to eight times as many, and so on
_CLASS_BITS = 3
_OVERHEAD_BYTES = 2**9  # a request costs as much as if it had so many more
_REMEMBERED = 0.8  # share of what was learned before, with each turn
_MOST_RETRY_S = 60


class _Class:
    """Requests of about one size. `pending` is the cost of those without an outcome, `used_s` the time of the model that the class had."""

    def __init__(self) -> None:
        self.waiting: deque[Request] = deque()
        self.pending, self.used_s, self.turn_s = 0, 0.0, 0.0
        self._cost, self._seconds = 0.0, 0.0

    @property
    def pending_s(self) -> float:
        """The time that the model takes for all of them, as far as is known."""
        return self.pending * self._seconds / self._cost if self._cost else 0.0

    def learn(self, cost: int, seconds: float) -> None:
        self.pending -= cost
        self.used_s += seconds
        self.turn_s = seconds
        self._cost, self._seconds = _REMEMBERED * self._cost + cost, _REMEMBERED * self._seconds + seconds


class Turn:
    """Requests that are answered together, of one class. `rows` is to be set to their number of rows, once it is known."""

    def __init__(self, of: _Class, requests: deque[Request]) -> None:
        self.of, self.requests, self.rows = of, requests, 0
        self.cost = sum(map(_cost, requests))
        self.bytes = self.cost - len(requests) * _OVERHEAD_BYTES


class Queue:
    """What waits for the model. A class has at most `most` requests, and none that would be answered later than after `longest_s`."""

    def __init__(self, *, most: int, longest_s: float) -> None:
        self._most, self._longest_s = most, longest_s
        self._lock = threading.Lock()
        self._classes: dict[int, _Class] = {0: _Class()}
        self._row_bytes = 0.0

    def __len__(self) -> int:
        return sum(len(one.waiting) for one in self._classes.values())

    @property
    def has_small(self) -> bool:
        return bool(self._classes[0].waiting)

    def put(self, request: Request) -> None:
        """Let a request wait. Raises ServingError (BUSY) at once if there is no room, or if its answer would come too late."""
        with self._lock:
            one = self._class(request.size)
            self._admit(one, request.deadline)
            if not one.pending:
                one.used_s = max(one.used_s, min((other.used_s for other in self._classes.values() if other.pending), default=0.0))
            one.waiting.append(request)
            one.pending += _cost(request)

    def take(self, *, rows: float, most: int | None = None) -> Turn | None:
        """The requests of the class whose turn it is, with about as many rows; at least one. None if nothing waits.

        With `most`: of the smallest requests alone, and no more than that number.
        """
        with self._lock:
            waiting = [one for one in self._classes.values() if one.waiting] if most is None else [self._classes[0]]
            if not (turn := min(waiting, key=lambda one: one.used_s, default=None)) or not turn.waiting:
                return None
            taken, left = deque([turn.waiting.popleft()]), rows
            left -= self._rows(taken[0])
            while turn.waiting and left >= (more := self._rows(turn.waiting[0])) and (most is None or len(taken) < most):
                taken.append(turn.waiting.popleft())
                left -= more
            return Turn(turn, taken)

    def learn(self, turn: Turn, seconds: float) -> None:
        """Take over how long a turn took, which has its outcomes now."""
        with self._lock:
            turn.of.learn(turn.cost, seconds)
            if turn.rows:
                self._row_bytes = _REMEMBERED * (self._row_bytes or turn.bytes / turn.rows) + (1 - _REMEMBERED) * turn.bytes / turn.rows

    def _class(self, size: int) -> _Class:
        number = (((size - 1) // SMALL_BYTES).bit_length() + _CLASS_BITS - 1) // _CLASS_BITS if size > SMALL_BYTES else 0
        return self._classes.setdefault(number, _Class())

    def _rows(self, request: Request) -> float:
        """About how many rows a request has."""
        return max(1.0, request.size / self._row_bytes) if self._row_bytes else 1.0

    def _admit(self, one: _Class, deadline: float) -> None:
        """Raises ServingError (BUSY) for a request of a class; not if it would be the only one, so that there is always one to learn from."""
        if not one.pending:
            return
        if len(one.waiting) >= self._most:
            raise _busy(f"{self._most} requests wait", 1)
        expected = self._expected_s(one)
        if expected > self._longest_s:
            raise _busy(f"an answer would take about {expected:.2g} s, more than the {self._longest_s:g} s that requests may take", expected)
        if deadline < math.inf and expected > deadline - time.perf_counter():
            raise _busy(f"an answer would take about {expected:.2g} s, more than the time limit of the request", expected)

    def _expected_s(self, one: _Class) -> float:
        """When another request of a class would be answered: after its own, and as much of the time for each other class."""
        own = one.pending_s
        others = (min(other.pending_s, max(own, other.turn_s)) for other in self._classes.values() if other is not one and other.pending)
        return own + one.turn_s + sum(others)


def _cost(request: Request) -> int:
    return request.size + _OVERHEAD_BYTES


def _busy(reason: str, after_s: float) -> ServingError:
    retry_s = min(_MOST_RETRY_S, max(1, math.ceil(after_s)))
    return ServingError(Kind.BUSY, f"the server is busy ({reason}): try again in {retry_s} s", retry_s=retry_s)
