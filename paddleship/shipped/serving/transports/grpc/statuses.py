"""The status code, the message and the trailing metadata of a request that gets no answer."""

from __future__ import annotations

from typing import Any

from grpc import StatusCode

from paddleship.shipped.serving.errors import TEMPORARY, Kind, kind_of

CODES = {
    Kind.BAD_REQUEST: StatusCode.INVALID_ARGUMENT,
    Kind.REFUSED_BY_MODEL: StatusCode.INVALID_ARGUMENT,
    Kind.UNKNOWN_MODEL: StatusCode.NOT_FOUND,
    Kind.UNSUPPORTED: StatusCode.UNIMPLEMENTED,
    Kind.TOO_LARGE: StatusCode.RESOURCE_EXHAUSTED,  # as gRPC itself says of a message that is too large
    Kind.BUSY: StatusCode.UNAVAILABLE,
    Kind.CLIENT_LIMIT: StatusCode.RESOURCE_EXHAUSTED,
    Kind.EXPIRED: StatusCode.DEADLINE_EXCEEDED,
    Kind.NOT_READY: StatusCode.UNAVAILABLE,
    Kind.STOPPING: StatusCode.UNAVAILABLE,
    Kind.UNSENDABLE: StatusCode.INTERNAL,
    Kind.DEFECT: StatusCode.INTERNAL,
}
_PUSHED_BACK = TEMPORARY - {Kind.STOPPING}  # another server may be asked at once
_PUSHBACK = "grpc-retry-pushback-ms"  # what Retry-After is to HTTP: https://github.com/grpc/proposal/blob/master/A6-client-retries.md
_MOST_CHARACTERS = 500  # of a message, which is in the headers of the answer
_DEFECT = "the model failed on this request: see the server's log"


def status(failure: BaseException) -> tuple[Any, str, tuple[tuple[str, str], ...]]:
    """The code, what the client reads, of a defect without detail, and when it may ask again."""
    kind = kind_of(failure)
    pushback = ((_PUSHBACK, str(1000 * getattr(failure, "retry_s", 1))),) if kind in _PUSHED_BACK else ()
    return CODES[kind], _DEFECT if kind is Kind.DEFECT else str(failure)[:_MOST_CHARACTERS], pushback
