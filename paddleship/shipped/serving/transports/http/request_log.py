"""A line of the log for each request, with its id and the trace that it belongs to. Around the app only where lines are JSON."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paddleship.shipped.serving.errors import ServingError
from paddleship.shipped.serving.logs import FIELDS
from paddleship.shipped.serving.transports.http import statuses
from paddleship.shipped.serving.transports.http.connections import ANSWER
from paddleship.shipped.serving.transports.http.http_request import ASKED

log = logging.getLogger("paddleship.shipped.serving.requests")

_TRACE = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")  # https://www.w3.org/TR/trace-context
_HEALTH = "/v2/health/"
_MOST_CHARACTERS = 128  # of an id that a client chose
_MOST_OF_ERROR = 500  # which may name what a client chose, such as an input that there is not


class RequestLog:
    """Logs what the app answers, apart from health checks.

    A request is named by its header `X-Request-Id`, or else by the `id` of its body. `trace_id` and `span_id` are those of the client, by
    its header `traceparent`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(_HEALTH):
            await self._app(scope, receive, send)
            return
        begun, seen = time.perf_counter(), _Seen()
        scope.pop(ANSWER, None)  # it would go past `send`

        async def observed(message: Message) -> None:
            seen.add(message)
            await send(message)

        try:
            await self._app(scope, receive, observed)
        finally:
            log.info("%s %s", scope["method"], scope["path"], extra={FIELDS: _fields(scope, seen, time.perf_counter() - begun)})


def refused(method: bytes, target: bytes, headers: list[tuple[bytes, bytes]], failure: ServingError) -> None:
    """Log a request that was refused before the app saw it."""
    seen, path = _Seen(), target.partition(b"?")[0]
    seen.add({"status": int(statuses.status(failure)), "body": orjson.dumps({"error": statuses.message(failure)})})
    log.info("%s %s", method.decode("latin-1"), path.decode("latin-1"), extra={FIELDS: _fields({"headers": headers}, seen, 0.0)})


class _Seen:
    """What was sent as the answer: the status, 499 if there is none because the client has gone, and the body of an error."""

    def __init__(self) -> None:
        self.status, self.bytes, self.body = 499, 0, b""

    def add(self, message: Message) -> None:
        self.status = message.get("status", self.status)
        part = message.get("body", b"")
        self.bytes += len(part)
        if self.status >= 400:
            self.body += part


def _fields(scope: Mapping[str, Any], seen: _Seen, seconds: float) -> dict[str, Any]:
    headers = dict(scope["headers"])
    asked = scope.get(ASKED)
    number = headers.get(b"x-request-id", b"").decode("latin-1") or (asked.number if asked is not None else None)
    fields: dict[str, Any] = {"status": seen.status, "duration_ms": round(1000 * seconds, 3), "response_bytes": seen.bytes}
    if asked is not None:
        fields["request_bytes"] = asked.size
    if number:
        fields["request_id"] = number[:_MOST_CHARACTERS]
    if found := _TRACE.fullmatch(headers.get(b"traceparent", b"").decode("latin-1")):
        fields |= {"trace_id": found[1], "span_id": found[2]}
    return fields | _error(seen.body)


def _error(body: bytes) -> dict[str, str]:
    try:
        return {"error": orjson.loads(body)["error"][:_MOST_OF_ERROR]} if body else {}
    except (ValueError, TypeError, KeyError):
        return {}
