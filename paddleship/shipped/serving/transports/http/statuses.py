"""The HTTP status, the headers and the JSON of a request that gets no answer."""

from __future__ import annotations

from http import HTTPStatus

from paddleship.shipped.serving.errors import TEMPORARY, Kind, kind_of

STATUSES = {
    Kind.BAD_REQUEST: HTTPStatus.BAD_REQUEST,
    Kind.REFUSED_BY_MODEL: HTTPStatus.UNPROCESSABLE_ENTITY,
    Kind.UNKNOWN_MODEL: HTTPStatus.NOT_FOUND,
    Kind.UNSUPPORTED: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    Kind.TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    Kind.BUSY: HTTPStatus.SERVICE_UNAVAILABLE,
    Kind.CLIENT_LIMIT: HTTPStatus.TOO_MANY_REQUESTS,
    Kind.EXPIRED: HTTPStatus.GATEWAY_TIMEOUT,
    Kind.NOT_READY: HTTPStatus.SERVICE_UNAVAILABLE,
    Kind.STOPPING: HTTPStatus.SERVICE_UNAVAILABLE,
    Kind.UNSENDABLE: HTTPStatus.INTERNAL_SERVER_ERROR,
    Kind.DEFECT: HTTPStatus.INTERNAL_SERVER_ERROR,
}
_DEFECT = "the model failed on this request: see the server's log"
_ADVICE = {Kind.NOT_READY: ": try again when /v2/health/ready answers 200"}


def status(failure: BaseException) -> HTTPStatus:
    return STATUSES[kind_of(failure)]


def message(failure: BaseException) -> str:
    """What the client reads; of a defect, no detail."""
    kind = kind_of(failure)
    return _DEFECT if kind is Kind.DEFECT else f"{failure}{_ADVICE.get(kind, '')}"


def headers(failure: BaseException) -> dict[str, str]:
    return {"Retry-After": str(getattr(failure, "retry_s", 1))} if kind_of(failure) in TEMPORARY else {}
