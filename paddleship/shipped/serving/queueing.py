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
_REMEMBERED, _LARGEST_REMEMBERED = 0.8, 0.98  # share of what was learned before, with each turn, and of the cost of the largest turn
_SPREAD = 1e-3  # of the squares of costs: turns that differ less say nothing about the part of each unit
_MOST_RETRY_S = 60


class _Pace:
    """How long turns take: a constant and a part for each unit of their cost, by least squares over the last ones."""

    def __init__(self) -> None:
        self._turns = self._costs = self._squares = self._times = self._products = 0.0
        self._turn_s = self._unit_s = 0.0

    def learn(self, cost: float, seconds: float) -> None:
        self._turns = turns = _REMEMBERED * self._turns + 1
        self._costs = costs = _REMEMBERED * self._costs + cost
        self._squares = squares = _REMEMBERED * self._squares + cost * cost
        self._times = times = _REMEMBERED * self._times + seconds
        self._products = products = _REMEMBERED * self._products + cost * seconds
        spread, most_s = turns * squares - costs * costs, times / costs
        unit_s = (turns * products - costs * times) / spread if spread > _SPREAD * squares else most_s
        self._unit_s = min(max(unit_s, 0.0), most_s)
        self._turn_s = (times - self._unit_s * costs) / turns

    def seconds(self, turns: int, cost: float) -> float:
        return turns * self._turn_s + cost * self._unit_s


class _Class:
    """Requests of about one size. `pending` is the cost of those without an outcome, `used_s` the time of the model that the class had."""

    def __init__(self) -> None:
        self.waiting: deque[Request] = deque()
        self.pending, self.used_s, self.turn_s = 0, 0.0, 0.0
        self._pace, self._most_cost, self._row_bytes = _Pace(), 1, 0.0

    def seconds(self, more: int = 0) -> float:
        """The time that the model takes for all of them, and for a further one of this cost, as far as is known."""
        cost = self.pending + more
        return self._pace.seconds(-(-cost // self._most_cost), cost)

    def rows(self, request: Request) -> float:
        """About how many rows a request has; infinitely many as long as none is known."""
        return max(1.0, request.size / self._row_bytes) if self._row_bytes else math.inf

    def learn(self, turn: Turn, seconds: float) -> None:
        self.pending -= turn.cost
        self.used_s += seconds
        self.turn_s = seconds
        if turn.computed and turn.rows:
            cost = turn.cost * turn.computed / turn.count  # those without an outcome of the model took next to nothing
            self._most_cost = max(turn.cost, int(_LARGEST_REMEMBERED * self._most_cost))
            self._pace.learn(cost, seconds)
            new = (cost - turn.computed * _OVERHEAD_BYTES) / turn.rows
            self._row_bytes += (1 - _REMEMBERED if self._row_bytes else 1.0) * (new - self._row_bytes)


class Turn:
    """Requests that are answered together, of one class. To be set once known: how many of them were `computed`, and their `rows`."""

    def __init__(self, of: _Class, requests: deque[Request]) -> None:
        self.of, self.requests, self.computed, self.rows = of, requests, 0, 0
        self.count = len(requests)
        self.cost = self.count * _OVERHEAD_BYTES
        for request in requests:
            self.cost += request.size


class Queue:
    """What waits for the model. A class has at most `most` requests, and none that would be answered later than after `longest_s`."""

    def __init__(self, *, most: int, longest_s: float) -> None:
        self._most, self._longest_s = most, longest_s
        self.pending = self.waiting = 0  # requests without an outcome, and those of them whose turn has not come
        self._lock = threading.Lock()
        self._classes: dict[int, _Class] = {0: _Class()}

    @property
    def has_small(self) -> bool:
        return bool(self._classes[0].waiting)

    def put(self, request: Request) -> None:
        """Let a request wait. Raises ServingError (BUSY) at once if there is no room, or if its answer would come too late."""
        with self._lock:
            one = self._class(request.size)
            if one.pending and (failure := self._refusal(one, request.size, request.deadline)):
                raise failure
            if not one.pending and len(self._classes) > 1:
                one.used_s = max(one.used_s, min((other.used_s for other in self._classes.values() if other.pending), default=0.0))
            one.waiting.append(request)
            self.pending += 1
            self.waiting += 1
            one.pending += request.size + _OVERHEAD_BYTES

    def refusal(self, size: int) -> ServingError | None:
        """Why a request of so many bytes would be refused now; None if it would not."""
        with self._lock:
            one = self._class(size)
            return self._refusal(one, size, math.inf) if one.pending else None

    def take(self, *, rows: int) -> Turn | None:
        """The requests of the class whose turn it is, with about as many rows; at least one. None if nothing waits."""
        with self._lock:
            one = min((one for one in self._classes.values() if one.waiting), key=lambda one: one.used_s, default=None)
            if one is None:
                return None
            taken = deque([one.waiting.popleft()])
            left = rows - one.rows(taken[0])
            while one.waiting and left >= (more := one.rows(one.waiting[0])):
                taken.append(one.waiting.popleft())
                left -= more
            self.waiting -= len(taken)
            return Turn(one, taken)

    def take_small(self, most: int) -> Turn | None:
        """Requests of the first class, up to that number. None if there are none."""
        with self._lock:
            small, taken = self._classes[0], deque[Request]()
            while small.waiting and len(taken) < most:
                taken.append(small.waiting.popleft())
            self.waiting -= len(taken)
            return Turn(small, taken) if taken else None

    def finish(self, turn: Turn) -> None:
        """Forget a turn whose requests have their outcomes now, and learn nothing from it."""
        with self._lock:
            self.pending -= turn.count
            turn.of.pending -= turn.cost

    def learn(self, turn: Turn, seconds: float) -> None:
        """Take over how long a turn took, which has its outcomes now."""
        with self._lock:
            self.pending -= turn.count
            turn.of.learn(turn, seconds)

    def _class(self, size: int) -> _Class:
        if size <= SMALL_BYTES:
            return self._classes[0]
        return self._classes.setdefault((((size - 1) // SMALL_BYTES).bit_length() + _CLASS_BITS - 1) // _CLASS_BITS, _Class())

    def _refusal(self, one: _Class, size: int, deadline: float) -> ServingError | None:
        """Why a request of a class gets no place; not asked for the only one, so that there is always one to learn from."""
        if len(one.waiting) >= self._most:
            return _busy(f"{self._most} requests wait", 1)
        expected = self._expected_s(one, size)
        if expected > self._longest_s:
            return _busy(
                f"an answer would take about {expected:.2g} s, more than the {self._longest_s:g} s that requests may take", expected
            )
        if deadline < math.inf and expected > deadline - time.perf_counter():
            return _busy(f"an answer would take about {expected:.2g} s, more than the time limit of the request", expected)
        return None

    def _expected_s(self, one: _Class, size: int) -> float:
        """When another request of a class would be answered: with the last of its own, and after as much time for each other class."""
        own = one.seconds(size + _OVERHEAD_BYTES)
        return own + sum(
            min(other.seconds(), max(own, other.turn_s)) for other in self._classes.values() if other is not one and other.pending
        )


def _busy(reason: str, after_s: float) -> ServingError:
    retry_s = min(_MOST_RETRY_S, max(1, math.ceil(after_s)))
    return ServingError(Kind.BUSY, f"the server is busy ({reason}): try again in {retry_s} s", retry_s=retry_s)
