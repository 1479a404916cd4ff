"""Closed-loop HTTP load: each connection sends its next request after the answer to the last one."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paddleship.acceptance.client import Client, ServerError

_NO_ROOM = 503
_BUSY_S, _PAUSE_S = 30, 0.05


@dataclass(frozen=True)
class LoadResult:
    """The result: latency in ms of every request that was answered with 200, total time in seconds, and failures.

    `answers` has the distinct answers to each body; exactly one if the server is deterministic.
    """

    samples_ms: tuple[float, ...]
    seconds: float
    failures: tuple[str, ...]
    answers: tuple[frozenset[bytes], ...]

    @property
    def throughput_per_s(self) -> float:
        return len(self.samples_ms) / self.seconds


def _sent(client: Client, body: bytes) -> tuple[int, bytes]:
    """The answer to a request; it is sent again while the server has no room for it."""
    deadline = time.perf_counter() + _BUSY_S
    while True:
        status, answer = client.send(body)
        if status != _NO_ROOM or time.perf_counter() > deadline:
            return status, answer
        time.sleep(_PAUSE_S)


def closed_loop(
    connect: Callable[[], Client], bodies: Sequence[bytes], *, requests: int, concurrency: int, seconds: float = float("inf")
) -> LoadResult:
    """Send `requests` requests, cycling through `bodies`, over `concurrency` connections; after `seconds`, only unsent bodies."""
    numbers, samples, failures = itertools.count(), [], []
    answers: list[set[bytes]] = [set() for _ in bodies]
    begin = time.perf_counter()

    def work() -> None:
        client = connect()
        try:
            while (number := next(numbers)) < requests and (number < len(bodies) or time.perf_counter() - begin < seconds):
                start = time.perf_counter()
                status, answer = _sent(client, bodies[number % len(bodies)])
                latency_ms = 1000 * (time.perf_counter() - start)
                if status == 200:
                    samples.append(latency_ms)
                    answers[number % len(bodies)].add(answer)
                else:
                    failures.append(f"{status}: {answer[:100].decode(errors='replace')}")
        except ServerError as error:
            failures.append(str(error))
        finally:
            client.close()

    threads = [threading.Thread(target=work) for _ in range(concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return LoadResult(tuple(samples), time.perf_counter() - begin, tuple(failures), tuple(map(frozenset, answers)))
