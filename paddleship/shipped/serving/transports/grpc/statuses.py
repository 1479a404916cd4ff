"""The status code and the message of a request that gets no answer."""

from __future__ import annotations

from typing import Any

from grpc import StatusCode

from paddleship.shipped.serving.errors import Kind, kind_of

CODES = {
    Kind.BAD_REQUEST: StatusCode.INVALID_ARGUMENT,
    Kind.REFUSED_BY_MODEL: StatusCode.INVALID_ARGUMENT,
    Kind.UNKNOWN_MODEL: StatusCode.NOT_FOUND,
    Kind.UNSUPPORTED: StatusCode.UNIMPLEMENTED,
    Kind.TOO_LARGE: StatusCode.RESOURCE_EXHAUSTED,  # as gRPC itself says of a message that is too large
    Kind.BUSY: StatusCode.UNAVAILABLE,
    Kind.EXPIRED: StatusCode.DEADLINE_EXCEEDED,
    Kind.NOT_READY: StatusCode.UNAVAILABLE,
    Kind.STOPPING: StatusCode.UNAVAILABLE,
    Kind.UNSENDABLE: StatusCode.INTERNAL,
    Kind.DEFECT: StatusCode.INTERNAL,
}
_MOST_CHARACTERS = 500  # of a message, which is in the headers of the answer
_DEFECT = "the model failed on this request: see the server's log"


def status(failure: BaseException) -> tuple[Any, str]:
    """The code, and what the client reads; of a defect, no detail."""
    kind = kind_of(failure)
    return CODES[kind], _DEFECT if kind is Kind.DEFECT else str(failure)[:_MOST_CHARACTERS]
