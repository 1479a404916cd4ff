"""Open-loop load from one process: requests come at random times at a fixed rate, whether or not earlier ones are answered.

The latency of a request counts from the time at which it came. If all connections wait for answers, it is lost: its client got none.
"""

from __future__ import annotations

import itertools
import random
import select
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.serve.client import Connection


@dataclass
class Arrivals:
    """What came of a load: how many requests came, seconds of those with an answer, the refused ones (503), and how many were lost."""

    seconds: float
    sent: int = 0
    answered_s: list[float] = field(default_factory=list)
    refused_s: list[float] = field(default_factory=list)
    lost: int = 0
    other: list[str] = field(default_factory=list)


def load(port: int, requests: Sequence[bytes], *, rate: float, connections: int, seconds: float, seed: int = 0) -> Arrivals:
    """Send requests in turn, so many a second, over at most so many connections; wait up to a second for the last answers."""
    turn, poll, result = itertools.cycle(requests), select.epoll(), Arrivals(seconds)
    by_number = {one.socket.fileno(): one for one in (Connection(port) for _ in range(connections))}
    free, came = list(by_number.values()), {}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    began = time.perf_counter()
    times = _times(rate, seconds, seed)
    ahead = next(times, None)
    while ahead is not None or came:
        now = time.perf_counter() - began
        while ahead is not None and ahead <= now:
            result.sent += 1
            if free:
                connection = free.pop()
                came[connection.socket.fileno()] = ahead
                connection.send(next(turn))
            else:
                result.lost += 1
            ahead = next(times, None)
        if now > seconds + 1:
            break
        for number, _ in poll.poll(max(0.0, min(0.05, (ahead if ahead is not None else now + 0.05) - now))):
            connection = by_number[number]
            if (status := connection.receive()) is not None:
                _count(result, status, time.perf_counter() - began - came.pop(number))
                free.append(connection)
    result.lost += len(came)
    for connection in by_number.values():
        connection.socket.close()
    poll.close()
    return result


def _times(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """Arrival times of a Poisson process."""
    generator, at = random.Random(seed), 0.0  # noqa: S311 a load
    while (at := at + generator.expovariate(rate)) < seconds:
        yield at


def _count(result: Arrivals, status: bytes, took_s: float) -> None:
    if status.endswith(b"200 OK"):
        result.answered_s.append(took_s)
    elif b" 503 " in status:
        result.refused_s.append(took_s)
    else:
        result.other.append(status.decode(errors="replace"))
