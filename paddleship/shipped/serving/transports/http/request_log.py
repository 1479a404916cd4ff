"""Notes each request, with its id and the trace that it belongs to. Around the app only where the options ask for it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paddleship.shipped.serving.errors import ServingError
from paddleship.shipped.serving.telemetry.recording import Recorder
from paddleship.shipped.serving.transports.http import statuses
from paddleship.shipped.serving.transports.http.connections import ANSWER
from paddleship.shipped.serving.transports.http.http_request import ASKED

_HEALTH = "/v2/health/"


class RequestLog:
    """Notes what the app answers, apart from health checks.

    A request is named by its header `X-Request-Id`, or else by the `id` of its body. `trace_id` and `span_id` are those of the client, by
    its header `traceparent`.
    """

    def __init__(self, app: ASGIApp, recorder: Recorder) -> None:
        self._app, self._recorder = app, recorder

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
            _note(self._recorder, scope["method"], scope["path"], scope, seen, time.perf_counter() - begun)


def refused(recorder: Recorder, method: bytes, target: bytes, headers: list[tuple[bytes, bytes]], failure: ServingError) -> None:
    """Note a request that was refused before the app saw it."""
    seen, path = _Seen(), target.partition(b"?")[0]
    seen.add({"status": int(statuses.status(failure)), "body": orjson.dumps({"error": statuses.message(failure)})})
    _note(recorder, method.decode("latin-1"), path.decode("latin-1"), {"headers": headers}, seen, 0.0)


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


def _note(recorder: Recorder, method: str, path: str, scope: Mapping[str, Any], seen: _Seen, seconds: float) -> None:
    headers, asked = dict(scope["headers"]), scope.get(ASKED)
    measured: dict[str, Any] = {"status": seen.status, "duration_ms": round(1000 * seconds, 3), "response_bytes": seen.bytes}
    if asked is not None:
        measured["request_bytes"] = asked.size
    recorder.note(
        f"{method} {path}",
        seconds,
        measured,
        {"http.request.method": method, "url.path": path, "http.response.status_code": seen.status},
        request_id=headers.get(b"x-request-id", b"").decode("latin-1") or (asked.number if asked is not None else None),
        traceparent=headers.get(b"traceparent", b"").decode("latin-1"),
        error=_error(seen.body),
        is_failure=seen.status >= 500,
    )


def _error(body: bytes) -> str | None:
    try:
        return str(orjson.loads(body)["error"]) if body else None
    except (ValueError, TypeError, KeyError):
        return None
