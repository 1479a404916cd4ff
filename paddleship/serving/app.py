"""The ASGI app: health, metadata and inference of the Open Inference Protocol v2.

A runtime serves one thread at a time and may hold the GIL while it runs, so all requests of a process pass
through one thread of their own and the event loop stays free for health. Scale by processes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from paddleship import __version__
from paddleship.errors import PaddleshipError, RequestError
from paddleship.runtimes.turns import Turns
from paddleship.serving.model import AnswerError, ServedModel

log = logging.getLogger("paddleship.serving")

MAX_BATCH = 256
MAX_BODY_BYTES = 32 * 2**20


class Service:
    """The state of one process: its one model, its one inference thread."""

    def __init__(self, load: Callable[[], ServedModel], on_failure: Callable[[BaseException], None]) -> None:
        self.model: ServedModel | None = None
        self._load, self._on_failure = load, on_failure
        self._turns = Turns()

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Load in the background, so that `live` answers at once and `ready` when it is true; finish what runs before the end."""
        loading = asyncio.create_task(self._make_ready())
        yield
        loading.cancel()
        self._turns.close()

    async def _make_ready(self) -> None:
        try:
            self.model = await asyncio.wrap_future(self._turns.submit(self._loaded))
        except asyncio.CancelledError:
            raise
        except BaseException as failure:
            if not isinstance(failure, PaddleshipError):
                log.exception("the model cannot be loaded")
            self._on_failure(failure)

    def _loaded(self) -> ServedModel:
        model = self._load()
        try:
            model.warm_up()
        except Exception:
            log.warning("warm-up failed: the first requests will be slow", exc_info=True)
        log.info("ready: %s in %s", model.candidate.model, model.candidate.runtime)
        return model

    async def server(self, _request: Request) -> Response:
        return _json({"name": "paddleship", "version": __version__, "extensions": []})

    async def live(self, _request: Request) -> Response:
        return _json({"live": True})

    async def ready(self, _request: Request) -> Response:
        return _json({"ready": self.model is not None}, 200 if self.model else 503)

    async def metadata(self, request: Request) -> Response:
        return _json(self._named(request).metadata())

    async def model_ready(self, request: Request) -> Response:
        return _json({"name": self._named(request).candidate.model, "ready": True})

    async def infer(self, request: Request) -> Response:
        model = self._named(request)
        body = await _body(request)
        try:
            answer = await asyncio.wrap_future(self._turns.submit(model.answer, body))
        except RequestError as error:
            raise HTTPException(400, str(error)) from None
        except AnswerError as error:
            raise HTTPException(500, str(error)) from None
        return Response(answer, media_type="application/json")

    def _named(self, request: Request) -> ServedModel:
        if self.model is None:
            raise HTTPException(503, "the model is still loading: ask /v2/health/ready")
        name = request.path_params["name"]
        if name != self.model.candidate.model:
            raise HTTPException(404, f"there is no model {name!r}: this server has {self.model.candidate.model!r}")
        return self.model


def create_app(folder: Path, *, max_batch: int = MAX_BATCH, on_failure: Callable[[BaseException], None]) -> Starlette:
    """The app over the candidate in `folder`; `on_failure` is told when it cannot be loaded."""
    service = Service(lambda: ServedModel(folder, max_batch=max_batch), on_failure)
    routes = [
        Route("/v2", service.server),
        Route("/v2/health/live", service.live),
        Route("/v2/health/ready", service.ready),
        Route("/v2/models/{name}", service.metadata),
        Route("/v2/models/{name}/ready", service.model_ready),
        Route("/v2/models/{name}/infer", service.infer, methods=["POST"]),
    ]
    handlers = {HTTPException: _explain, Exception: _apologise}
    return Starlette(routes=routes, lifespan=service.lifespan, exception_handlers=handlers)


async def _body(request: Request) -> bytes:
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise HTTPException(413, f"the request is larger than {MAX_BODY_BYTES} bytes: send fewer rows")
        chunks.append(chunk)
    return b"".join(chunks)


async def _explain(_request: Request, error: Exception) -> Response:
    status, detail = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "")
    return _json({"error": detail}, status)


async def _apologise(_request: Request, _error: Exception) -> Response:
    return _json({"error": "the model failed on this request; the server's log says how"}, 500)


def _json(content: object, status: int = 200) -> Response:
    return Response(orjson.dumps(content), status, media_type="application/json")
