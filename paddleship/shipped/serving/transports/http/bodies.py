"""Read the body of a request within the server's limits: refuse it as early as possible, and never exceed the memory budget."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import numpy as np
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from paddleship.errors import RequestError
from paddleship.shipped.serving.budget import Budget
from paddleship.shipped.serving.errors import Kind, ServingError
from paddleship.shipped.serving.transports.http import compression
from paddleship.shipped.serving.transports.http.compression import Decompressor
from paddleship.shipped.serving.transports.http.limits import MARKS, BodyLimits

_FORM = "a form (multipart/form-data) is not supported: send the file as the whole body (curl --data-binary @FILE)"
_JSON_BYTES, _MOST_DIGITS = "Inference-Header-Content-Length", 18
_JSON_STARTS = b"{ \t\r\n"


class Body:
    """The body of one request as it comes, decompressed, which counts against the budget until `close`.

    `binary` are the bytes of tensors, which follow the JSON in `content`. `raw`: it is no JSON but the value of the one column of the
    model, as it is. `coding` is how the client wants its answer compressed.
    """

    def __init__(self, headers: Mapping[bytes, bytes], limits: BodyLimits, budget: Budget) -> None:
        """Raises ServingError and RequestError for a request that its headers refuse."""
        self.content, self.binary, self.raw, self.size = bytearray(), bytearray(), False, 0
        self._headers, self._limits, self._budget = headers, limits, budget
        self._marks = self._marked = 0
        _check_head(headers, limits)
        self._json_bytes = _json_bytes(headers)
        self._decompressor, self.coding = compression.decompressor(headers), compression.wanted(headers)

    async def receive(self, receive: Receive) -> None:
        """Read the whole of it. Raises ServingError, RequestError, and ClientDisconnect."""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk, more = message.get("body", b""), message.get("more_body", False)
            if self._decompressor is None:
                self.add(chunk)
            else:
                await self._decompress(self._decompressor, chunk)
        self._check_end()

    def add(self, chunk: bytes) -> None:
        """Raises ServingError for a body that is too large, or would take too much memory once it is parsed."""
        limits = self._limits
        if self.size + len(chunk) > limits.max_bytes:
            raise _too_large(limits)
        self._budget.take(len(chunk))
        self.size += len(chunk)
        if self._json_bytes is None:
            self.raw = self.raw or (limits.raw and not self.content and _is_raw(self._headers, chunk))
            self.content += chunk
        else:
            view, missing = memoryview(chunk), self._json_bytes - len(self.content)
            self.content += view[:missing]
            self.binary += view[missing:]
        if len(self.content) > limits.unchecked_bytes and not self.raw and limits.max_marks is not None:
            self._count(limits.max_marks)

    def close(self) -> None:
        self._budget.give_back(self.size)

    async def _decompress(self, decompressor: Decompressor, chunk: bytes) -> None:
        for part in decompressor.parts(chunk):
            self.add(part)
            await asyncio.sleep(0)  # other clients come between

    def _check_end(self) -> None:
        """Raises RequestError for a body that is not whole."""
        if self._decompressor is not None:
            self._decompressor.finish()
        if self._json_bytes is not None and len(self.content) < self._json_bytes:
            raise RequestError(
                f"{_JSON_BYTES} is {self._json_bytes}, and the body has {self.size} bytes: send the number of bytes that the JSON has"
            )

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
    if limits.raw and _media_type(headers) == "multipart/form-data":
        raise ServingError(Kind.UNSUPPORTED, _FORM)
    length = headers.get(b"content-length", b"0")
    if length.isdigit() and int(length) > limits.max_bytes:
        raise _too_large(limits)


def _json_bytes(headers: Mapping[bytes, bytes]) -> int | None:
    """The bytes of JSON that binary tensors follow; None if the whole body is JSON. Raises RequestError."""
    if (length := headers.get(b"inference-header-content-length")) is None:
        return None
    if not length.isdigit() or len(length) > _MOST_DIGITS:
        raise RequestError(f"{_JSON_BYTES} is {length[:40].decode('latin-1')!r}: send the number of bytes that the JSON has")
    return int(length)


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
