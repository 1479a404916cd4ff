"""The headers of an answer, and the answer as they say: binary tensors behind its JSON, or compressed."""

from __future__ import annotations

from paddleship.shipped.serving.transports.http import compression

Headers = list[tuple[bytes, bytes]]
_JSON: Headers = [(b"content-type", b"application/json")]
_BINARY = (b"content-type", b"application/octet-stream")
_VARY = (b"vary", b"accept-encoding")


async def encoded(content: bytes, json_bytes: int | None, coding: str | None) -> tuple[bytes, Headers]:
    """The body to send and its headers, in the coding that is wanted. `json_bytes`: so many are JSON, and binary tensors follow."""
    headers = _JSON if json_bytes is None else [_BINARY, (b"inference-header-content-length", b"%d" % json_bytes)]
    if coding is None or (compressed := await compression.compress(content, coding)) is None:
        return content, headers
    return compressed, [*headers, (b"content-encoding", coding.encode()), _VARY]
