"""Why a request gets no answer: a kind, for which each transport has a code, and a message for the client."""

from __future__ import annotations

from enum import StrEnum

from paddleship.errors import PaddleshipError, RequestError


class Kind(StrEnum):
    """Why a request gets no answer."""

    BAD_REQUEST = "bad request"  # not in the form of the protocol, or with names, types, shapes or values that the model does not accept
    REFUSED_BY_MODEL = "refused by the model"  # within all declared rules
    UNKNOWN_MODEL = "unknown model"  # or version
    UNSUPPORTED = "unsupported"  # a form of the protocol that the transport does not have
    TOO_LARGE = "too large"
    BUSY = "busy"  # the memory for requests and answers is in use, or the queue is full; a later request may be answered
    CLIENT_LIMIT = "client limit"  # this client has as many requests in flight as one may have; it may ask again after an answer
    EXPIRED = "expired"  # the time limit of the request has passed, so it is not computed
    NOT_READY = "not ready"  # the model is still loading
    STOPPING = "stopping"  # another server is to be asked
    UNSENDABLE = "unsendable"  # there is an answer, and the transport cannot represent it
    DEFECT = "defect"  # of the model or of this server: the message is in the log only


TEMPORARY = frozenset({Kind.BUSY, Kind.CLIENT_LIMIT, Kind.NOT_READY, Kind.STOPPING})  # the same request may be answered later


class ServingError(PaddleshipError):
    """A request that gets no answer. `RequestError` is one too, of the kind BAD_REQUEST.

    If the kind is temporary, the client may ask again in `retry_s`.
    """

    def __init__(self, kind: Kind, message: str, *, retry_s: int = 1) -> None:
        super().__init__(message)
        self.kind, self.retry_s = kind, retry_s


class RefusedByModel(RequestError):
    """The runtime raised an error for an input that keeps all declared rules, and still answers a known batch as before."""


def expired() -> ServingError:
    """The failure of a request whose time limit has passed."""
    return ServingError(Kind.EXPIRED, "the time limit of the request has passed before its turn, so it was not computed: allow more time")


def kind_of(failure: BaseException) -> Kind:
    """The kind of a failure; anything unknown is a defect."""
    if isinstance(failure, ServingError):
        return failure.kind
    if isinstance(failure, RefusedByModel):
        return Kind.REFUSED_BY_MODEL
    return Kind.BAD_REQUEST if isinstance(failure, RequestError) else Kind.DEFECT
