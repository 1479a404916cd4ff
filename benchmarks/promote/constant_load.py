"""Clients that send one request after the other, over HTTP or gRPC, and note every one that was not answered well.

No client repeats a request that failed, as libraries do by themselves.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

_TIMEOUT_S = 30


@dataclass
class Seen:
    """The number of requests that were sent, what went wrong, and the longest time in ms that one took."""

    sent: int = 0
    errors: list[str] = field(default_factory=list)
    longest_ms: float = 0.0


class Client(Protocol):
    """One connection."""

    def ask(self) -> str:
        """Send the request; returns what is wrong with its answer, empty if nothing is."""

    def close(self) -> None: ...


class HttpClient:
    def __init__(self, host: str, port: int, path: str, body: bytes) -> None:
        self._connection, self._path, self._body = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S), path, body

    def ask(self) -> str:
        try:
            self._connection.request("POST", self._path, self._body, {"Content-Type": "application/json"})
            answer = self._connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException) as failure:
            return repr(failure)
        return "" if answer.status == 200 else f"status {answer.status}"

    def close(self) -> None:
        self._connection.close()


class GrpcClient:
    def __init__(self, host: str, port: int, method: str, message: bytes) -> None:
        import grpc

        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0), ("grpc.enable_retries", 0)]
        self._channel = grpc.insecure_channel(f"{host}:{port}", options=options)
        self._call, self._message = self._channel.unary_unary(method), message

    def ask(self) -> str:
        import grpc

        try:
            self._call(self._message, timeout=_TIMEOUT_S)
        except grpc.RpcError as failure:
            return f"{failure.code().name}: {failure.details()}"
        return ""

    def close(self) -> None:
        self._channel.close()


@contextmanager
def sending(port: int, path: str, body: bytes, *, host: str = "127.0.0.1", clients: int = 4, pause_s: float = 0.005) -> Iterator[Seen]:
    """Send requests over HTTP to this port while the block lasts; every other client opens a connection for each request.

    A short pause after each answer leaves the processor to what is observed.
    """
    with _load(lambda: HttpClient(host, port, path, body), clients=clients, pause_s=pause_s) as seen:
        yield seen


@contextmanager
def calling(port: int, method: str, message: bytes, *, clients: int = 4, pause_s: float = 0.005) -> Iterator[Seen]:
    """The same over gRPC."""
    with _load(lambda: GrpcClient("127.0.0.1", port, method, message), clients=clients, pause_s=pause_s) as seen:
        yield seen


@contextmanager
def _load(connect: Callable[[], Client], *, clients: int, pause_s: float) -> Iterator[Seen]:
    seen, over, lock = Seen(), threading.Event(), threading.Lock()

    def work(*, keeps: bool) -> None:
        client: Client | None = None
        while not over.is_set():
            began = time.perf_counter()
            client = client or connect()
            error = client.ask()
            if error or not keeps:
                client.close()
                client = None
            with lock:
                seen.sent += 1
                seen.errors += [error] if error else []
                seen.longest_ms = max(seen.longest_ms, 1000 * (time.perf_counter() - began))
            time.sleep(pause_s)
        if client is not None:
            client.close()

    threads = [threading.Thread(target=work, kwargs={"keeps": number % 2 == 0}) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        over.set()
        for thread in threads:
            thread.join()
