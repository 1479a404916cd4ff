"""Only clients with a token reach the app; health checks and the pages for people, which say nothing of the model, need none."""

from __future__ import annotations

import orjson
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from paddleship.shipped.serving.options import Tokens

_OPEN = frozenset({"/v2/health/live", "/v2/health/ready", "/", "/docs"})
_BODY = orjson.dumps({"error": "this server wants a token: send it in the header Authorization, as `Bearer TOKEN`"})


class Authorized:
    """Answers 401 to requests without one of the tokens."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app, self._tokens = app, tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _OPEN or self._tokens.allow(dict(scope["headers"]).get(b"authorization", b"")):
            await self._app(scope, receive, send)
        else:
            headers = {"WWW-Authenticate": "Bearer"}
            if any(name == b"expect" for name, _ in scope["headers"]):
                headers["Connection"] = "close"  # the client may or may not send the body, so the next bytes are ambiguous
            await Response(_BODY, 401, headers, media_type="application/json")(scope, receive, send)
