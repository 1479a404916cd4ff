"""A line of the log for each request, with its id and the trace that it belongs to. Around the app only where lines are JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paddleship.shipped.serving import request_fields
from paddleship.shipped.serving.errors import ServingError
from paddleship.shipped.serving.logs import FIELDS
from paddleship.shipped.serving.request_fields import log
from paddleship.shipped.serving.transports.http import statuses
from paddleship.shipped.serving.transports.http.connections import ANSWER
from paddleship.shipped.serving.transports.http.http_request import ASKED

_HEALTH = "/v2/health/"


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
    return fields | request_fields.fields(
        request_id=number, traceparent=headers.get(b"traceparent", b"").decode("latin-1"), error=_error(seen.body)
    )


def _error(body: bytes) -> str | None:
    try:
        return str(orjson.loads(body)["error"]) if body else None
    except (ValueError, TypeError, KeyError):
        return None
