"""Closed-loop load from one process: each connection sends its next request when the answer to the last one is complete.

It parses no more than the length of an answer, so that one core makes more load than one core of a server in Python can answer.
"""

from __future__ import annotations

import itertools
import re
import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


@dataclass
class Load:
    """What came of a load: seconds of each answered request, the seconds of all, and the first lines of other answers than 200."""

    seconds: float
    samples_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class Connection:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_at, self._received, self._missing = 0.0, b"", 1

    def send(self, request: bytes) -> None:
        self._received, self._missing, self.sent_at = b"", 1, time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> bytes | None:
        """The status line once the answer is complete; None before. Raises ConnectionError if the server closed."""
        if not (chunk := self.socket.recv(2**16)):
            raise ConnectionError("the server closed the connection")
        self._received += chunk
        if self._missing == 1:
            head, end, body = self._received.partition(b"\r\n\r\n")
            if not end:
                return None
            found = _LENGTH.search(head)
            self._missing = (int(found[1]) if found else 0) - len(body)
        else:
            self._missing -= len(chunk)
        return self._received[:40].partition(b"\r\n")[0] if self._missing <= 0 else None


def request(path: str, body: bytes) -> bytes:
    """A request with a body of JSON."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def load(port: int, requests: Sequence[bytes], *, connections: int, seconds: float) -> Load:
    """Send requests in turn over so many connections for so many seconds."""
    turn, poll = itertools.cycle(requests), select.epoll()
    open_ones = {one.socket.fileno(): one for one in (Connection(port) for _ in range(connections))}
    result, began = Load(seconds), time.perf_counter()
    for number, connection in open_ones.items():
        poll.register(number, select.EPOLLIN)
        connection.send(next(turn))
    end = began + seconds
    while (now := time.perf_counter()) < end:
        for number, _ in poll.poll(end - now):
            connection = open_ones[number]
            if (status := connection.receive()) is not None:
                result.samples_s.append(time.perf_counter() - connection.sent_at)
                if not status.endswith(b"200 OK"):
                    result.failures.append(status.decode(errors="replace"))
                connection.send(next(turn))
    result.seconds = time.perf_counter() - began
    for connection in open_ones.values():
        connection.socket.close()
    poll.close()
    return result
