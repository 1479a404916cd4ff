"""Read the body of a request within the server's limits: refuse it as early as possible, and never exceed the memory budget."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import numpy as np
from starlette.requests import Request

from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.transports.http.limits import MARKS, BodyLimits

_BINARY = (
    "the binary tensor form (header Inference-Header-Content-Length) is not supported yet: send JSON "
    "(tritonclient: set_data_from_numpy(..., binary_data=False))"
)


@asynccontextmanager
async def received(request: Request, limits: BodyLimits, budget: Budget) -> AsyncIterator[bytearray]:
    """Yield the whole body; it counts against the budget until the block ends. Raises ServingError."""
    _check_head(request.headers, limits)
    body, marks = bytearray(), 0
    try:
        async for chunk in request.stream():
            if len(body) + len(chunk) > limits.max_bytes:
                raise _too_large(limits)
            budget.take(len(chunk))
            body += chunk
            if limits.max_marks is not None and (marks := marks + _marks(chunk)) > limits.max_marks and len(body) > limits.unchecked_bytes:
                raise ServingError(
                    Kind.TOO_LARGE,
                    f"the request has more than {limits.max_marks} JSON lists and values, the limit of this server: send fewer rows",
                )
        yield body
    finally:
        budget.give_back(len(body))


def _check_head(headers: Mapping[str, str], limits: BodyLimits) -> None:
    """Refuse a request by its headers. Raises ServingError."""
    if "inference-header-content-length" in headers:
        raise ServingError(Kind.UNSUPPORTED, _BINARY)
    encoding = headers.get("content-encoding", "identity")
    if encoding.lower() not in ("", "identity"):
        raise ServingError(Kind.UNSUPPORTED, f"the content encoding {encoding[:40]!r} is not supported: send the JSON uncompressed")
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) > limits.max_bytes:
        raise _too_large(limits)


def _too_large(limits: BodyLimits) -> ServingError:
    return ServingError(
        Kind.TOO_LARGE,
        f"the request is larger than the {limits.max_bytes} bytes that this server takes in up to {limits.max_batch} rows: send fewer rows",
    )


def _marks(chunk: bytes) -> int:
    """The memory cost of parsing a part of a body, estimated from the characters that start values, lists, texts and objects."""
    codes = np.frombuffer(chunk, np.uint8)
    return sum(weight * int(np.count_nonzero(codes == code)) for code, weight in MARKS.items())
