"""Read the body of a request within the server's limits: refuse it as early as possible, and never exceed the memory budget."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.transports.http.limits import MARKS, BodyLimits

_BINARY = (
    "the binary tensor form (header Inference-Header-Content-Length) is not supported yet: send JSON "
    "(tritonclient: set_data_from_numpy(..., binary_data=False))"
)
_FORM = "a form (multipart/form-data) is not supported: send the file as the whole body (curl --data-binary @FILE)"
_JSON_STARTS = b"{ \t\r\n"


class Body:
    """The body of one request as it comes, which counts against the budget until `close`.

    `raw`: it is no JSON but the value of the one column of the model, as it is.
    """

    def __init__(self, headers: Mapping[bytes, bytes], limits: BodyLimits, budget: Budget) -> None:
        """Raises ServingError for a request that its headers refuse."""
        self.content, self.raw = bytearray(), False
        self._headers, self._limits, self._budget = headers, limits, budget
        self._marks = self._marked = 0
        _check_head(headers, limits)

    async def receive(self, receive: Receive) -> None:
        """Read the whole of it. Raises ServingError, and ClientDisconnect."""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self.add(message.get("body", b""))
            more = message.get("more_body", False)

    def add(self, chunk: bytes) -> None:
        """Raises ServingError for a body that is too large, or would take too much memory once it is parsed."""
        limits = self._limits
        self.raw = self.raw or (limits.raw and not self.content and _is_raw(self._headers, chunk))
        if len(self.content) + len(chunk) > limits.max_bytes:
            raise _too_large(limits)
        self._budget.take(len(chunk))
        self.content += chunk
        if len(self.content) > limits.unchecked_bytes and not self.raw and limits.max_marks is not None:
            self._count(limits.max_marks)

    def close(self) -> None:
        self._budget.give_back(len(self.content))

    def _count(self, most: int) -> None:
        new = self.content[self._marked :]
        self._marks, self._marked = self._marks + _marks(new), len(self.content)
        if self._marks > most:
            raise ServingError(
                Kind.TOO_LARGE,
                f"the request has more than {most} JSON lists and values, the limit of this server: send fewer rows",
            )


def _check_head(headers: Mapping[bytes, bytes], limits: BodyLimits) -> None:
    """Refuse a request by its headers. Raises ServingError."""
    if b"inference-header-content-length" in headers:
        raise ServingError(Kind.UNSUPPORTED, _BINARY)
    if limits.raw and _media_type(headers) == "multipart/form-data":
        raise ServingError(Kind.UNSUPPORTED, _FORM)
    encoding = headers.get(b"content-encoding", b"identity").decode("latin-1")
    if encoding.lower() not in ("", "identity"):
        raise ServingError(Kind.UNSUPPORTED, f"the content encoding {encoding[:40]!r} is not supported: send the JSON uncompressed")
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > limits.max_bytes:
        raise _too_large(limits)


def _is_raw(headers: Mapping[bytes, bytes], start: bytes) -> bool:
    """Whether a body that starts so is no JSON; a client that names no type, or that of a form as curl does, may send either."""
    return bool(start) and not _media_type(headers).endswith("json") and start[0] not in _JSON_STARTS


def _media_type(headers: Mapping[bytes, bytes]) -> str:
    return headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()


def _too_large(limits: BodyLimits) -> ServingError:
    return ServingError(
        Kind.TOO_LARGE,
        f"the request is larger than the {limits.max_bytes} bytes that this server takes in up to {limits.max_batch} rows: send fewer rows",
    )


def _marks(chunk: bytes | bytearray) -> int:
    """The memory cost of parsing a part of a body, estimated from the characters that start values, lists, texts and objects."""
    codes = np.frombuffer(chunk, np.uint8)
    return sum(weight * int(np.count_nonzero(codes == code)) for code, weight in MARKS.items())
