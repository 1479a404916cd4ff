"""Read the body of a request within the server's limits: refuse it as early as possible, and never exceed the memory budget."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

import numpy as np
from starlette.requests import Request

from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.transports.http.limits import MARKS, BodyLimits

_BINARY = (
    "the binary tensor form (header Inference-Header-Content-Length) is not supported yet: send JSON "
    "(tritonclient: set_data_from_numpy(..., binary_data=False))"
)
_FORM = "a form (multipart/form-data) is not supported: send the file as the whole body (curl --data-binary @FILE)"
_JSON_STARTS = b"{ \t\r\n"


class Body(NamedTuple):
    """The body of a request: JSON, or `raw`, the value of the one column of the model as it is."""

    content: bytearray
    raw: bool


@asynccontextmanager
async def received(request: Request, limits: BodyLimits, budget: Budget) -> AsyncIterator[Body]:
    """Yield the whole body; it counts against the budget until the block ends. Raises ServingError."""
    _check_head(request.headers, limits)
    body, marks, raw = bytearray(), 0, False
    try:
        async for chunk in request.stream():
            raw = raw or (limits.raw and not body and _is_raw(request.headers, chunk))
            if len(body) + len(chunk) > limits.max_bytes:
                raise _too_large(limits)
            budget.take(len(chunk))
            body += chunk
            if raw or limits.max_marks is None:
                continue
            if (marks := marks + _marks(chunk)) > limits.max_marks and len(body) > limits.unchecked_bytes:
                raise ServingError(
                    Kind.TOO_LARGE,
                    f"the request has more than {limits.max_marks} JSON lists and values, the limit of this server: send fewer rows",
                )
        yield Body(body, raw)
    finally:
        budget.give_back(len(body))


def _check_head(headers: Mapping[str, str], limits: BodyLimits) -> None:
    """Refuse a request by its headers. Raises ServingError."""
    if "inference-header-content-length" in headers:
        raise ServingError(Kind.UNSUPPORTED, _BINARY)
    if limits.raw and _media_type(headers) == "multipart/form-data":
        raise ServingError(Kind.UNSUPPORTED, _FORM)
    encoding = headers.get("content-encoding", "identity")
    if encoding.lower() not in ("", "identity"):
        raise ServingError(Kind.UNSUPPORTED, f"the content encoding {encoding[:40]!r} is not supported: send the JSON uncompressed")
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limits.max_bytes:
        raise _too_large(limits)


def _is_raw(headers: Mapping[str, str], start: bytes) -> bool:
    """Whether a body that starts so is no JSON; a client that names no type, or that of a form as curl does, may send either."""
    return bool(start) and not _media_type(headers).endswith("json") and start[0] not in _JSON_STARTS


def _media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _too_large(limits: BodyLimits) -> ServingError:
    return ServingError(
        Kind.TOO_LARGE,
        f"the request is larger than the {limits.max_bytes} bytes that this server takes in up to {limits.max_batch} rows: send fewer rows",
    )


def _marks(chunk: bytes) -> int:
    """The memory cost of parsing a part of a body, estimated from the characters that start values, lists, texts and objects."""
    codes = np.frombuffer(chunk, np.uint8)
    return sum(weight * int(np.count_nonzero(codes == code)) for code, weight in MARKS.items())
