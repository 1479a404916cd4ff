"""Closed-loop load: each connection sends its next request after the answer to the last one."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from paddleship.acceptance.transport import Client, Outcome, Reply, ServerError

_BUSY_S, _PAUSE_S = 30, 0.05
_SHOWN = 100  # characters of a failure


@dataclass(frozen=True)
class LoadResult:
    """The result: latency in ms of every request that was answered, total time in seconds, and failures.

    `answers` has the distinct answers to each request; exactly one if the server is deterministic.
    """

    samples_ms: tuple[float, ...]
    seconds: float
    failures: tuple[str, ...]
    answers: tuple[frozenset[bytes], ...]

    @property
    def throughput_per_s(self) -> float:
        return len(self.samples_ms) / self.seconds


def _sent(client: Client, request: bytes) -> Reply:
    """The answer to a request; it is sent again while the server has no room for it."""
    deadline = time.perf_counter() + _BUSY_S
    while True:
        reply = client.send(request)
        if reply.outcome is not Outcome.BUSY or time.perf_counter() > deadline:
            return reply
        time.sleep(_PAUSE_S)


def closed_loop(
    connect: Callable[[], Client], encoded: Sequence[bytes], *, requests: int, concurrency: int, seconds: float = float("inf")
) -> LoadResult:
    """Send `requests` requests, cycling through `encoded`, over `concurrency` connections; after `seconds`, only unsent ones."""
    numbers, samples, failures = itertools.count(), [], []
    answers: list[set[bytes]] = [set() for _ in encoded]
    begin = time.perf_counter()

    def work() -> None:
        client = connect()
        try:
            while (number := next(numbers)) < requests and (number < len(encoded) or time.perf_counter() - begin < seconds):
                start = time.perf_counter()
                reply = _sent(client, encoded[number % len(encoded)])
                latency_ms = 1000 * (time.perf_counter() - start)
                if reply.outcome is Outcome.ANSWERED:
                    samples.append(latency_ms)
                    answers[number % len(encoded)].add(reply.payload)
                else:
                    failures.append(f"{reply.code}: {reply.text(_SHOWN)}")
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
