"""A line of the log for each request over gRPC, with its id and the trace that it belongs to. Around handlers only where lines are JSON."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from paddleship.shipped.serving import request_fields
from paddleship.shipped.serving.logs import FIELDS
from paddleship.shipped.serving.request_fields import log
from paddleship.shipped.serving.transports.grpc.infer_request import InferRequest
from paddleship.shipped.serving.transports.grpc.messages import SERVICE

ASKED: ContextVar[InferRequest | None] = ContextVar("asked", default=None)  # the inference request of a call
Handler = Callable[[Any, Any], Awaitable[None]]


def logged(method: str, handler: Handler) -> Handler:
    """The handler of a method, whose requests are logged.

    A request is named by its metadata `x-request-id`, or else by the `id` of its message. `trace_id` and `span_id` are those of the
    client, by its metadata `traceparent`.
    """

    async def observed(messages: Any, context: Any) -> None:
        begun, seen = time.perf_counter(), _Seen(context)
        try:
            await handler(messages, seen)
        finally:
            log.info("/%s/%s", SERVICE, method, extra={FIELDS: _fields(seen, time.perf_counter() - begun)})

    return observed


class _Seen:
    """The context of a call, which notes what goes through it. The code is CANCELLED until there is an answer."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.code, self.error, self.request_bytes, self.response_bytes = "CANCELLED", "", 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def read(self) -> Any:
        content = await self._context.read()
        self.request_bytes += len(content) if isinstance(content, bytes) else 0
        return content

    async def write(self, content: bytes) -> None:
        await self._context.write(content)
        self.code, self.response_bytes = "OK", len(content)

    async def abort(self, code: Any, details: str, *trailing: Any) -> None:
        self.code, self.error = code.name, details
        await self._context.abort(code, details, *trailing)


def _fields(seen: _Seen, seconds: float) -> dict[str, Any]:
    sent, asked = {key: value for key, value in seen.invocation_metadata() if isinstance(value, str)}, ASKED.get()
    fields = {"code": seen.code, "duration_ms": round(1000 * seconds, 3)}
    fields |= {"response_bytes": seen.response_bytes, "request_bytes": seen.request_bytes}
    number = sent.get("x-request-id") or (asked.number if asked is not None else None)
    return fields | request_fields.fields(request_id=number, traceparent=sent.get("traceparent", ""), error=seen.error)
