"""The ASGI app: health, metadata and inference of the Open Inference Protocol v2."""

from __future__ import annotations

import asyncio
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
from paddleship.errors import RequestError
from paddleship.shipped.serving.errors import ServingError
from paddleship.shipped.serving.service import Service, State
from paddleship.shipped.serving.transports.http import statuses
from paddleship.shipped.serving.transports.http.bodies import received
from paddleship.shipped.serving.transports.http.connections import Guard
from paddleship.shipped.serving.transports.http.inference import JsonModel

_CLIENT_IS_GONE = 499  # not sent


class Endpoints:
    """Answers to the paths of the protocol, from the service that all transports share."""

    def __init__(self, service: Service, guard: Guard, on_failure: Callable[[BaseException], None]) -> None:
        self._service, self._guard, self._on_failure = service, guard, on_failure
        self._json: JsonModel | None = None

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Load the model in the background, so that `live` answers at once; at the end, finish the running request."""
        loop = asyncio.get_running_loop()

        def failed(failure: BaseException) -> None:
            loop.call_soon_threadsafe(self._on_failure, failure)

        self._service.start(failed)
        watch = asyncio.create_task(self._guard.watch())
        yield
        watch.cancel()
        self._service.close()

    async def server(self, _request: Request) -> Response:
        return _json({"name": "paddleship", "version": __version__, "extensions": []})

    async def live(self, _request: Request) -> Response:
        return _json({"live": True})

    async def ready(self, _request: Request) -> Response:
        if self._service.state is State.FAILING:
            await asyncio.wrap_future(self._service.probe())
        ready = self._service.state is State.READY
        return _json({"ready": ready}, 200 if ready else 503)

    async def metadata(self, request: Request) -> Response:
        return _json(self._named(request).metadata())

    async def model_ready(self, request: Request) -> Response:
        model = self._named(request).model
        return _json({"name": model.candidate.model, "ready": model.answers}, 200 if model.answers else 503)

    async def infer(self, request: Request) -> Response:
        model = self._named(request)
        try:
            async with received(request, model.limits, self._service.budget) as body:
                answer = await self._turn(request, lambda: model.answer_raw(body.content) if body.raw else model.answer(body.content))
        except ClientDisconnect:
            return Response(status_code=_CLIENT_IS_GONE)
        return Response(answer, media_type="application/json")

    async def _turn(self, request: Request, work: Callable[[], bytes]) -> bytes:
        """Run the work on the inference thread, unless the client disconnects before it starts. Raises ClientDisconnect."""
        result: asyncio.Future[bytes] = asyncio.wrap_future(self._service.submit(work))
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

    def _named(self, request: Request) -> JsonModel:
        """The model that the path names. Raises ServingError."""
        model = self._service.model(request.path_params["name"], request.path_params.get("version"))
        if self._json is None:
            self._json = JsonModel(model)
        return self._json


def create_app(service: Service, guard: Guard, *, on_failure: Callable[[BaseException], None]) -> Starlette:
    """The app of a service, which it starts and closes; `on_failure` gets the exception if the model cannot be loaded."""
    endpoints = Endpoints(service, guard, on_failure)
    routes = [Route("/v2", endpoints.server), Route("/v2/health/live", endpoints.live), Route("/v2/health/ready", endpoints.ready)]
    for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        routes += [
            Route(model, endpoints.metadata),
            Route(f"{model}/ready", endpoints.model_ready),
            Route(f"{model}/infer", endpoints.infer, methods=["POST"]),
        ]
    handlers = {HTTPException: _explain_route, ServingError: _explain, RequestError: _explain, Exception: _defect}
    app = Starlette(routes=routes, lifespan=endpoints.lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False  # a client would have to send the body again
    return app


async def _explain(request: Request, failure: Exception) -> Response:
    """The response for a request that the service does not answer."""
    return _error(request, statuses.message(failure), statuses.status(failure), statuses.headers(failure))


async def _explain_route(request: Request, error: Exception) -> Response:
    """The response for a request that no route takes."""
    if not isinstance(error, HTTPException):
        return await _explain(request, error)
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        return _error(request, f"{request.method} is not allowed here: use {headers.get('Allow')}", error.status_code, headers)
    message = f"there is no path {request.url.path[:80]!r}: send requests to /v2/models/NAME/infer; /v2 says what this server is"
    return _error(request, message, error.status_code, headers)


async def _defect(_request: Request, failure: Exception) -> Response:
    return _json({"error": statuses.message(failure)}, statuses.status(failure))


def _error(request: Request, message: str, status: int, headers: dict[str, str]) -> Response:
    if "expect" in request.headers:  # the client may or may not send the body, so the next bytes are ambiguous
        headers = {**headers, "Connection": "close"}
    return _json({"error": message}, status, headers)


def _json(content: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(content), status, headers, media_type="application/json")
