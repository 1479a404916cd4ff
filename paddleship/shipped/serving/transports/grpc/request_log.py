"""Notes each request over gRPC, with its id and the trace that it belongs to. Around handlers only where the options ask for it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from grpc import StatusCode

from paddleship.shipped.serving.telemetry.recording import Recorder
from paddleship.shipped.serving.transports.grpc.infer_request import InferRequest
from paddleship.shipped.serving.transports.grpc.messages import SERVICE

ASKED: ContextVar[InferRequest | None] = ContextVar("asked", default=None)  # the inference request of a call
_FAILURES = (StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.INTERNAL)  # as those with a 5xx over HTTP
Handler = Callable[[Any, Any], Awaitable[None]]


def noting(recorder: Recorder, method: str, handler: Handler) -> Handler:
    """The handler of a method, whose requests are noted.

    A request is named by its metadata `x-request-id`, or else by the `id` of its message. `trace_id` and `span_id` are those of the
    client, by its metadata `traceparent`.
    """

    async def observed(messages: Any, context: Any) -> None:
        begun, seen = time.perf_counter(), _Seen(context)
        try:
            await handler(messages, seen)
        finally:
            _note(recorder, method, seen, time.perf_counter() - begun)

    return observed


class _Seen:
    """The context of a call, which notes what goes through it. The code is CANCELLED until there is an answer."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.code, self.error, self.request_bytes, self.response_bytes = StatusCode.CANCELLED, "", 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    async def read(self) -> Any:
        content = await self._context.read()
        self.request_bytes += len(content) if isinstance(content, bytes) else 0
        return content

    async def write(self, content: bytes) -> None:
        await self._context.write(content)
        self.code, self.response_bytes = StatusCode.OK, len(content)

    async def abort(self, code: Any, details: str, *trailing: Any) -> None:
        self.code, self.error = code, details
        await self._context.abort(code, details, *trailing)


def _note(recorder: Recorder, method: str, seen: _Seen, seconds: float) -> None:
    sent, asked = {key: value for key, value in seen.invocation_metadata() if isinstance(value, str)}, ASKED.get()
    measured = {"code": seen.code.name, "duration_ms": round(1000 * seconds, 3)}
    recorder.note(
        f"/{SERVICE}/{method}",
        seconds,
        {**measured, "response_bytes": seen.response_bytes, "request_bytes": seen.request_bytes},
        {"rpc.system": "grpc", "rpc.service": SERVICE, "rpc.method": method, "rpc.grpc.status_code": seen.code.value[0]},
        request_id=sent.get("x-request-id") or (asked.number if asked is not None else None),
        traceparent=sent.get("traceparent", ""),
        error=seen.error,
        is_failure=seen.code in _FAILURES,
    )
