"""Limits of connections: their number, the size of a request head, and the time to send and to read.

uvicorn has a timeout for idle connections that were answered before, and none for a client that never completes a head or
body, or never reads its answer. Here every connection is checked once a second.
"""

from __future__ import annotations

import asyncio
import functools
import select
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import orjson
from httptools import HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.errors import ServingError
from paddleship.shipped.serving.options import Tokens
from paddleship.shipped.serving.transports.http import statuses
from paddleship.shipped.serving.transports.http.limits import ConnectionLimits

_TICK_S = 1.0
_PROBE_S = 0.1  # a request of a half-closed connection that is answered within this time needs no probe
_PROBE = b"HTTP/1.1 100 Continue\r\n\r\n"  # every client skips it (RFC 9110, 15.2)
_AROUND_HEADER = len(b": \r\n")
IS_GONE = "paddleship.is_gone"  # in the scope of a request: whether its client has disconnected
ARRIVED = "paddleship.arrived"  # in the scope of a request: when its first byte came, by `time.perf_counter`
ANSWER = "paddleship.answer"  # in the scope of a request: sends a body and headers with status 200 in one write, or returns False
_CLOSE, _JSON = (b"connection", b"close"), (b"content-type", b"application/json")
_COMPUTED = (b"/infer", b"/predict")  # ends of the paths of requests that wait for the model
_IDLE, _HEAD, _BODY = "idle", "head", "body"
LogRefusal = Callable[[bytes, bytes, list[tuple[bytes, bytes]], ServingError], None]


class Admission(Protocol):
    """What says whether the queue has a place for a request."""

    @property
    def crowded(self) -> bool:
        """Whether it may refuse one; quick to ask."""

    def refusal(self, size: int) -> ServingError | None:
        """Why it has none for a body of so many bytes; None if it has one."""


class Guard:
    """State that the connections of a process share: limits, budget, and the check of every connection once a second.

    `refused` counts connections that were closed with an error, by status. What `admission` refuses is refused before it costs more, if it
    has one of the `tokens`; `log_refusal` gets its method, its target, its headers and the reason.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        budget: Budget,
        admission: Admission | None = None,
        *,
        tokens: Tokens | None = None,
        log_refusal: LogRefusal | None = None,
    ) -> None:
        self.limits, self.budget, self.admission, self.tokens, self.log_refusal = limits, budget, admission, tokens, log_refusal
        self.connections: set[Connection] = set()
        self.refused: Counter[int] = Counter()
        self._drained_until = 0.0
        self._headers: list[tuple[bytes, bytes]] | None = None
        self._head = (b"", False)

    def admit(self, connection: Connection) -> bool:
        """Add a connection; at the limit, close one whose refused body still comes, else the idle one that has waited longest.

        False if there is none.
        """
        if len(self.connections) >= self.limits.max_connections:
            waiting = [other for other in self.connections if not other.busy and not other.transport.is_closing()]
            if not waiting:
                return False
            min(waiting, key=lambda other: (not other.drains, other.since)).transport.abort()
        self.connections.add(connection)
        return True

    def drain_pause(self, count: int, now: float) -> float:
        """Seconds to wait after reading `count` bytes of refused bodies, so that other clients come first."""
        self._drained_until = max(self._drained_until, now) + count / self.limits.drained_bytes_per_s
        return self._drained_until - now

    def head(self, headers: list[tuple[bytes, bytes]]) -> tuple[bytes, bool]:
        """The first lines of an answer with these headers, which change once a second, and whether they close its connection."""
        if headers is not self._headers:
            lines = b"".join(b"%b: %b\r\n" % header for header in headers)
            self._headers, self._head = headers, (STATUS_LINE[200] + lines, _CLOSE in headers)
        return self._head

    async def watch(self) -> None:
        """Close connections that take too long, until cancelled."""
        while True:
            await asyncio.sleep(_TICK_S)
            self.look(asyncio.get_running_loop().time())

    def look(self, now: float) -> None:
        self.budget.unread = _unread(self.connections)
        for connection in [*self.connections]:
            connection.look(now)


class Connection(HttpToolsProtocol):
    """One client. `since` is the start of its phase: idle, sending a head, or sending the next part of a body."""

    def __init__(self, guard: Guard, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._guard, self._limits = guard, guard.limits
        self._phase, self.since = _HEAD, self.loop.time()
        self._received = self._received_before = 0
        self._reading_since, self._reading_from = 0.0, 0
        self._refused = False
        self._data, self._head_again = b"", b""

    @property
    def busy(self) -> bool:
        """Whether a request waits for its answer."""
        return not self._answered

    @property
    def drains(self) -> bool:
        """Whether a body is still coming whose request has its answer."""
        return self._phase == _BODY and self._answered

    @property
    def unread_bytes(self) -> int:
        """Bytes of answers that the client has not read yet."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def look(self, now: float) -> None:
        """Close the connection if its client has taken too long."""
        limits, elapsed = self._limits, now - self.since
        if self._reads_too_slowly(now) or self._is_reset():
            self.transport.abort()
        elif self.transport.is_closing():
            return
        elif self._phase == _HEAD and elapsed > limits.head_timeout_s and not self._received:
            self.transport.close()
        elif self._phase == _HEAD and elapsed > limits.head_timeout_s:
            self._refuse(408, f"the headers of the request were not complete after {limits.head_timeout_s:g} s: send it at once")
        elif self._phase == _BODY and self.flow.read_paused:
            self.since += _TICK_S  # an earlier request of this connection is being answered
        elif self._phase == _BODY and elapsed > limits.body_window_s:
            if self._received - self._received_before < limits.min_bytes_per_s * elapsed:
                self._refuse(
                    408,
                    f"the body came too slowly ({self._received - self._received_before} bytes in {elapsed:.0f} s): "
                    f"send at least {limits.min_bytes_per_s} bytes a second",
                )
            self.since, self._received_before = now, self._received
        elif self._phase == _IDLE and self._answered and elapsed > limits.idle_timeout_s:
            self.transport.close()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if not self._guard.admit(self):
            self._refuse(503, f"all {self._limits.max_connections} connections are in use: try again later", retry=True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._guard.connections.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._phase == _IDLE:
            self._begin(_HEAD)
        if self._phase == _HEAD:
            self._received += len(data)
        self._data = data
        while self._data and not self.transport.is_closing():
            self._parse(self._data)
        if self._phase == _HEAD and self._received > self._limits.max_head_bytes:
            self._refuse_head()
        elif self._phase == _BODY and self._received > self._limits.max_drained_bytes:
            self._refuse(413, f"more than {self._limits.max_drained_bytes} bytes came: send fewer rows")
        elif len(self.pipeline) > self._limits.max_pipelined:
            self._refuse(429, f"more than {self._limits.max_pipelined} requests wait on this connection: wait for answers")
        elif self.drains:
            self.flow.pause_reading()
            self.loop.call_later(self._guard.drain_pause(len(data), self.loop.time()), self._read_on)

    def _parse(self, data: bytes) -> None:
        """Parse the next bytes; `_data` are those that are left to parse, behind a head that asks for another protocol."""
        super().data_received(data)
        if self._data is data:
            self._data = b""

    def _unsupported_upgrade_warning(self) -> None:
        """Read a head with `Upgrade` again without it, and go on behind it, where the parser has stopped.

        A server may ignore that field (RFC 9110, 7.8), which Java's client sends unless it is told not to.
        """
        stopped = sys.exc_info()[1]
        if self._head_again and isinstance(stopped, HttpParserUpgrade):
            self._data, self._head_again = self._head_again + self._data[stopped.args[0] :], b""
            self.parser = HttpRequestParser(self)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope[IS_GONE] = self.transport.is_closing  # type: ignore[literal-required]
        self.scope[ARRIVED] = time.perf_counter()  # type: ignore[literal-required]

    def _answer(self, cycle: RequestResponseCycle, body: bytes, own: Iterable[tuple[bytes, bytes]]) -> bool:
        """Send the whole answer to a request in one write, where uvicorn has two. False, and nothing is sent, if the client is too slow."""
        if cycle.flow.write_paused or cycle.response_started or cycle.disconnected:
            return False
        head, closes = self._guard.head(cycle.default_headers)
        lines = b"".join(b"%b: %b\r\n" % header for header in ([*own] if closes or cycle.keep_alive else [*own, _CLOSE]))
        cycle.keep_alive = cycle.keep_alive and not closes
        self.transport.write(b"%bcontent-length: %d\r\n%b\r\n%b" % (head, len(body), lines, body))
        cycle.response_started = cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        cycle.on_response()
        return True

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and any(name == b"upgrade" for name, _ in self.headers):
            self._head_again = self._without_upgrade()
            return
        if len(self.url) + sum(len(name) + len(value) + _AROUND_HEADER for name, value in self.headers) > self._limits.max_head_bytes:
            self._refuse_head()
            raise ValueError("the head is too large")  # so that the parser stops
        self._begin(_BODY)
        self._refused = self._refused_at_once()
        if self._refused:
            return
        super().on_headers_complete()
        self.scope[ANSWER] = functools.partial(self._answer, self.cycle)  # type: ignore[literal-required]

    def _without_upgrade(self) -> bytes:
        """The head of the request that asks for no other protocol."""
        first = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        return b"%b%b\r\n" % (first, b"".join(b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"))

    def _refused_at_once(self) -> bool:
        """Refuse an inference request that the queue has no place for, before anything is made for it. Its body is read and dropped."""
        admission = self._guard.admission
        if admission is None or not admission.crowded or not self._is_computed() or not self._answered or not self._is_plain():
            return False
        length = next((value for name, value in self.headers if name == b"content-length"), b"")
        if (failure := admission.refusal(int(length) if length.isdigit() else 0)) is None:
            return False
        self.transport.write(_response(failure, self.server_state.default_headers))
        if self._guard.log_refusal is not None:
            self._guard.log_refusal(self.parser.get_method(), self.url, self.headers, failure)
        return True

    def _is_computed(self) -> bool:
        """Whether the request is one that waits for the model, of a client that may ask it."""
        if self.parser.get_method() != b"POST" or not self.url.endswith(_COMPUTED):
            return False
        tokens = self._guard.tokens
        return tokens is None or tokens.allow(dict(self.headers).get(b"authorization", b""))

    def _is_plain(self) -> bool:
        """Whether the connection stays open after this request, and the client sends its body without being asked."""
        keeps = self.parser.get_http_version() == "1.1" and self.parser.should_keep_alive()
        return keeps and not self.expect_100_continue and _CLOSE not in self.server_state.default_headers

    def on_body(self, body: bytes) -> None:
        self._received += len(body)
        if not self._refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self._head_again:
            return
        self._begin(_IDLE)
        if not self._refused:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        if self._phase == _IDLE:
            self._begin(_IDLE)
        super().on_response_complete()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Whether the connection stays open for an answer: a client may close its sending side after a complete request."""
        if self._phase != _IDLE or self._answered or self.scheme == "https":  # over TLS, one side cannot close alone
            return False
        self.cycle.keep_alive = False
        self.loop.call_later(_PROBE_S, self._probe)
        return True

    def leave(self) -> None:
        """Close the connection with its last answer, unless that has begun and said that the connection stays open."""
        if self.cycle is not None and not self.cycle.response_started:
            self.cycle.keep_alive = False

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, f"this is not HTTP/1.1 ({msg}): send a request of that form")

    def shutdown(self) -> None:
        if self._phase == _BODY:
            self.transport.close()
        elif self._phase == _IDLE and self._answered and self._polled(select.POLLIN):
            return  # a request has arrived since; its answer closes the connection
        super().shutdown()

    @property
    def _answered(self) -> bool:
        return (self.cycle is None or self.cycle.response_complete) and not self.pipeline

    def _probe(self) -> None:
        """Write something to a client that closed its sending side: one that is gone answers it with a reset."""
        waits = not self.transport.is_closing() and not self._answered and not self.cycle.response_started
        if waits and self.cycle.scope["http_version"] == "1.1":
            self.transport.write(_PROBE)

    def _is_reset(self) -> bool:
        return self._polled(select.POLLERR)

    def _polled(self, events: int) -> bool:
        """Whether the socket has one of these events now."""
        connection: socket.socket | None = self.transport.get_extra_info("socket")
        if connection is None or connection.fileno() < 0:
            return False
        poll = select.poll()
        poll.register(connection.fileno(), events)
        return any(found & events for _, found in poll.poll(0))

    def _read_on(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def _begin(self, phase: str) -> None:
        self._phase, self.since = phase, self.loop.time()
        self._received = self._received_before = 0

    def _reads_too_slowly(self, now: float) -> bool:
        """Whether the client reads its answer slower than the required rate."""
        unread = self.unread_bytes
        if not unread:
            self._reading_since = 0.0
            return False
        if not self._reading_since or unread > self._reading_from:
            self._reading_since, self._reading_from = now, unread
        elapsed = now - self._reading_since
        if elapsed <= self._limits.body_window_s:
            return False
        slow = self._reading_from - unread < self._limits.min_bytes_per_s * elapsed
        self._reading_since, self._reading_from = now, unread
        return slow

    def _refuse_head(self) -> None:
        self._refuse(431, f"the head of the request is larger than {self._limits.max_head_bytes} bytes: send fewer or shorter headers")

    def _refuse(self, status: int, message: str, *, retry: bool = False) -> None:
        """Send an error if no answer was started, and close; once."""
        if self.transport.is_closing():
            return
        self._guard.refused[status] += 1
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = orjson.dumps({"error": message})
            head = [STATUS_LINE[status], b"content-type: application/json\r\n", b"content-length: %d\r\n" % len(body)]
            head += [b"retry-after: 1\r\n"] if retry else []
            self.transport.write(b"".join([*head, b"connection: close\r\n\r\n", body]))
        self.transport.close()


def _response(failure: ServingError, default_headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The whole response that says why a request is refused."""
    body = orjson.dumps({"error": statuses.message(failure)})
    retry = [(name.lower().encode(), value.encode()) for name, value in statuses.headers(failure).items()]
    headers = [*default_headers, (b"content-length", b"%d" % len(body)), _JSON, *retry]
    head = b"".join(b"%b: %b\r\n" % header for header in headers)
    return b"%b%b\r\n%b" % (STATUS_LINE[statuses.status(failure)], head, body)


def _unread(connections: Iterable[Connection]) -> int:
    return sum(connection.unread_bytes for connection in connections)
