"""The ASGI app: health, metadata and inference of the Open Inference Protocol v2.

A runtime must be used by one thread at a time and may hold the GIL while it runs. So all inference of a process runs in one
separate thread, and the event loop stays free for health checks. Scale by processes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from paddleship import __version__
from paddleship.errors import PaddleshipError, RequestError
from paddleship.shipped.computing import runtimes
from paddleship.shipped.serving.bodies import received
from paddleship.shipped.serving.connections import Guard
from paddleship.shipped.serving.model import AnswerError, RefusedByModel, ServedModel

log = logging.getLogger("paddleship.shipped.serving")

_CLIENT_IS_GONE = 499  # not sent


class Service:
    """The state of a process: one model, one inference thread, its connections."""

    def __init__(self, load: Callable[[], ServedModel], guard: Guard, on_failure: Callable[[BaseException], None]) -> None:
        self.model: ServedModel | None = None
        self._load, self._guard, self._on_failure = load, guard, on_failure
        self._thread = runtimes.inference_thread()

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Load the model in the background, so that `live` answers at once; at the end, finish the running request."""
        background = [asyncio.create_task(self._make_ready()), asyncio.create_task(self._guard.watch())]
        yield
        for task in background:
            task.cancel()
        self._thread.shutdown()
        if self.model is not None:
            self.model.close()

    async def _make_ready(self) -> None:
        try:
            self.model = await asyncio.wrap_future(self._thread.submit(self._loaded))
        except asyncio.CancelledError:
            raise
        except BaseException as failure:
            if not isinstance(failure, PaddleshipError):
                log.exception("the model cannot be loaded")
            self._on_failure(failure)

    def _loaded(self) -> ServedModel:
        model = self._load()
        model.warm_up()
        log.info("ready: %s in %s", model.candidate.model, model.candidate.runtime)
        return model

    async def server(self, _request: Request) -> Response:
        return _json({"name": "paddleship", "version": __version__, "extensions": []})

    async def live(self, _request: Request) -> Response:
        return _json({"live": True})

    async def ready(self, _request: Request) -> Response:
        if self.model is not None and not self.model.answers:
            await asyncio.wrap_future(self._thread.submit(self.model.probe))
        ready = self.model is not None and self.model.answers
        return _json({"ready": ready}, 200 if ready else 503)

    async def metadata(self, request: Request) -> Response:
        return _json(self._named(request).metadata())

    async def model_ready(self, request: Request) -> Response:
        model = self._named(request)
        return _json({"name": model.candidate.model, "ready": model.answers}, 200 if model.answers else 503)

    async def infer(self, request: Request) -> Response:
        model = self._named(request)
        try:
            async with received(request, model.limits, self._guard.budget) as body:
                answer = await self._turn(request, lambda: model.answer(body))
        except ClientDisconnect:
            return Response(status_code=_CLIENT_IS_GONE)
        except RefusedByModel as error:
            raise HTTPException(422, str(error)) from None
        except RequestError as error:
            raise HTTPException(400, str(error)) from None
        except AnswerError as error:
            raise HTTPException(500, str(error)) from None
        return Response(answer, media_type="application/json")

    async def _turn(self, request: Request, work: Callable[[], bytes]) -> bytes:
        """Run the work on the inference thread, unless the client disconnects before it starts. Raises ClientDisconnect."""
        result: asyncio.Future[bytes] = asyncio.wrap_future(self._thread.submit(work))
        gone = asyncio.ensure_future(request.receive())
        gone.add_done_callback(lambda _: result.cancel())  # no effect once the work is done
        try:
            return await result
        except asyncio.CancelledError:
            if gone.done():
                raise ClientDisconnect from None
            raise
        finally:
            gone.cancel()

    def _named(self, request: Request) -> ServedModel:
        if self.model is None:
            raise HTTPException(503, "the model is still loading: try again when /v2/health/ready answers 200", {"Retry-After": "1"})
        name, version = request.path_params["name"], request.path_params.get("version", self.model.version)
        if name != self.model.candidate.model:
            raise HTTPException(404, f"there is no model {name!r}: this server has {self.model.candidate.model!r}")
        if version != self.model.version:
            raise HTTPException(404, f"there is no version {version!r} of {name!r}: this server has {self.model.version!r}")
        return self.model


def create_app(load: Callable[[], ServedModel], guard: Guard, *, on_failure: Callable[[BaseException], None]) -> Starlette:
    """The app for the model that `load` returns; `on_failure` gets the exception if it fails."""
    service = Service(load, guard, on_failure)
    routes = [Route("/v2", service.server), Route("/v2/health/live", service.live), Route("/v2/health/ready", service.ready)]
    for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        routes += [
            Route(model, service.metadata),
            Route(f"{model}/ready", service.model_ready),
            Route(f"{model}/infer", service.infer, methods=["POST"]),
        ]
    handlers = {HTTPException: _explain, Exception: _internal_error}
    app = Starlette(routes=routes, lifespan=service.lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False  # a client would have to send the body again
    return app


async def _explain(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        return await _internal_error(request, error)
    headers, said = dict(error.headers or {}), error.detail
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        said = f"{request.method} is not allowed here: use {headers.get('Allow')}"
    if error.status_code == HTTPStatus.NOT_FOUND and said == HTTPStatus.NOT_FOUND.phrase:  # no route
        said = f"there is no path {request.url.path[:80]!r}: send requests to /v2/models/NAME/infer; /v2 says what this server is"
    if "expect" in request.headers:  # the client may or may not send the body, so the next bytes are ambiguous
        headers["Connection"] = "close"
    return _json({"error": said}, error.status_code, headers)


async def _internal_error(_request: Request, _error: Exception) -> Response:
    return _json({"error": "the model failed on this request: see the server's log"}, 500)


def _json(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, headers, media_type="application/json")
