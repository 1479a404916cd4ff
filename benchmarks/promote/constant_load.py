"""Clients that send one request after the other, and note every one that was not answered well."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Seen:
    """The number of requests that were sent, what went wrong, and the longest time in ms that one took."""

    sent: int = 0
    errors: list[str] = field(default_factory=list)
    longest_ms: float = 0.0


@contextmanager
def sending(port: int, path: str, body: bytes, *, host: str = "127.0.0.1", clients: int = 4, pause_s: float = 0.005) -> Iterator[Seen]:
    """Send requests to this port while the block lasts; every other client opens a connection for each request.

    A short pause after each answer leaves the processor to what is observed.
    """
    seen, over, lock = Seen(), threading.Event(), threading.Lock()

    def work(*, keeps: bool) -> None:
        connection: http.client.HTTPConnection | None = None
        while not over.is_set():
            began, error = time.perf_counter(), ""
            try:
                connection = connection or http.client.HTTPConnection(host, port, timeout=30)
                connection.request("POST", path, body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                error = "" if answer.status == 200 else f"status {answer.status}"
            except (OSError, http.client.HTTPException) as failure:
                error = repr(failure)
            if connection is not None and (error or not keeps):
                connection.close()
                connection = None
            with lock:
                seen.sent += 1
                seen.errors += [error] if error else []
                seen.longest_ms = max(seen.longest_ms, 1000 * (time.perf_counter() - began))
            time.sleep(pause_s)
        if connection is not None:
            connection.close()

    threads = [threading.Thread(target=work, kwargs={"keeps": number % 2 == 0}) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        over.set()
        for thread in threads:
            thread.join()
