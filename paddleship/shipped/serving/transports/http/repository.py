"""Requests for the index of the model repository."""

from __future__ import annotations

import orjson
from starlette.requests import Request

from paddleship.errors import RequestError
from paddleship.shipped.serving.errors import Kind, ServingError

_MOST_BYTES = 4096  # of a request for the index


async def only_ready(request: Request) -> bool:
    """Whether the request asks for ready models only. Raises RequestError and ServingError."""
    body = bytearray()
    async for chunk in request.stream():
        if len(body) + len(chunk) > _MOST_BYTES:
            raise ServingError(Kind.TOO_LARGE, f'the request is larger than {_MOST_BYTES} bytes: send {{"ready": true}}, or nothing')
        body += chunk
    try:
        ready = orjson.loads(body).get("ready", False) if body else False
    except (orjson.JSONDecodeError, AttributeError):
        raise RequestError('the request is not a JSON object: send {"ready": true}, or nothing') from None
    if not isinstance(ready, bool):
        raise RequestError(f"'ready' must be true or false (got {type(ready).__name__}): leave it out, or send one")
    return ready
