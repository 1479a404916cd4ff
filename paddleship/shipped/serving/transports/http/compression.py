"""Compressed bodies of requests and answers: gzip and deflate."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator, Mapping

from paddleship.errors import RequestError
from paddleship.shipped.serving.errors import Kind, ServingError

_WINDOWS = {"gzip": 31, "deflate": 15}  # of zlib's functions, for each coding
_STEP_BYTES = 2**18  # of a decompressed body, so that its limits are checked before it is all there
_LEVEL = 1  # the fastest
_WORTH_BYTES = 2**10


class Decompressor:
    """The parts of a compressed body as they come, none of them much larger than `_STEP_BYTES`."""

    def __init__(self, coding: str) -> None:
        self._coding, self._stream = coding, zlib.decompressobj(_WINDOWS[coding])

    def parts(self, chunk: bytes) -> Iterator[bytes]:
        """Decompress the next chunk. Raises RequestError."""
        part: bytes | None = None
        while chunk or part is None or len(part) == _STEP_BYTES:
            try:
                part = self._stream.decompress(chunk, _STEP_BYTES)
            except zlib.error:
                raise RequestError(f"the body is not compressed with {self._coding}: send it so, or without Content-Encoding") from None
            chunk = self._stream.unconsumed_tail
            yield part
        if self._stream.unused_data:
            raise RequestError(f"bytes follow the end of the body's {self._coding}: send one compressed stream")

    def finish(self) -> None:
        """Raises RequestError if the end of the body is missing."""
        if not self._stream.eof:
            raise RequestError(f"the {self._coding} of the body is cut off: send all of it")


def decompressor(headers: Mapping[bytes, bytes]) -> Decompressor | None:
    """What decompresses a body with these headers; None if it is not compressed. Raises ServingError."""
    named = headers.get(b"content-encoding")
    coding = named.decode("latin-1").strip().lower() if named else "identity"
    if coding in _WINDOWS:
        return Decompressor(coding)
    if coding not in ("", "identity"):
        raise ServingError(Kind.UNSUPPORTED, f"the content encoding {coding[:40]!r} is not supported: use {', '.join(_WINDOWS)}, or none")
    return None


def wanted(headers: Mapping[bytes, bytes]) -> str | None:
    """The coding that the client wants its answer in: where it names exactly one, because most libraries always name several."""
    accepted = headers.get(b"accept-encoding", b"").decode("latin-1").strip().lower()
    return accepted if accepted in _WINDOWS else None


async def compress(content: bytes, coding: str) -> bytes | None:
    """The compressed answer; None if it is too small to be worth it."""
    if len(content) < _WORTH_BYTES:
        return None
    return await asyncio.to_thread(zlib.compress, content, _LEVEL, _WINDOWS[coding])
