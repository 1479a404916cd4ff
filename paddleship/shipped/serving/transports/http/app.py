"""The ASGI app: health, metadata and inference of the Open Inference Protocol v2."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from http import HTTPStatus

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from paddleship import __version__
from paddleship.errors import RequestError
from paddleship.shipped.serving.asking import Asking
from paddleship.shipped.serving.batching import Gone
from paddleship.shipped.serving.errors import Kind, ServingError, kind_of
from paddleship.shipped.serving.service import Service, State
from paddleship.shipped.serving.transports.http import deadlines, pages, repository, statuses
from paddleship.shipped.serving.transports.http.answer_headers import Headers, encoded
from paddleship.shipped.serving.transports.http.bodies import Body
from paddleship.shipped.serving.transports.http.connections import ANSWER, ARRIVED, IS_GONE, Guard
from paddleship.shipped.serving.transports.http.http_request import ASKED, HttpRequest
from paddleship.shipped.serving.transports.http.inference import JsonModel
from paddleship.shipped.serving.transports.http.metrics.families import MEDIA_TYPE
from paddleship.shipped.serving.transports.http.metrics.of_server import ServerMetrics
from paddleship.shipped.serving.transports.http.openapi import document
from paddleship.shipped.serving.transports.http.rows import RowsRequest

log = logging.getLogger("paddleship.shipped.serving")

_INFER = re.compile(r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[^/]+))?/infer|/predict")
_JSON = "application/json"
_NO_LIMIT = nullcontext()
Listeners = Sequence[AbstractAsyncContextManager[None]]


class Endpoints:
    """Answers to the paths of the protocol, from the service that all transports share."""

    def __init__(self, service: Service, guard: Guard, on_failure: Callable[[BaseException], None], also: Listeners) -> None:
        self._service, self._guard, self._on_failure, self._also = service, guard, on_failure, also
        self._json: JsonModel | None = None
        self._asking, self._metrics = Asking(service), ServerMetrics(service, guard)

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """Load the model in the background, so that `live` answers at once; at the end, finish the running request.

        One of several processes listens as soon as this yields.
        """
        loop = asyncio.get_running_loop()

        def failed(failure: BaseException) -> None:
            loop.call_soon_threadsafe(self._on_failure, failure)

        async with AsyncExitStack() as listening:
            for listener in self._also:
                await listening.enter_async_context(listener)
            self._service.start(failed)
            watch, peers = [asyncio.create_task(self._guard.watch())], self._service.peers
            if peers is not None and peers.waits:
                await self._metrics.loaded()
            if peers is not None:
                watch.append(asyncio.create_task(self._metrics.publish(peers)))
            yield
            for task in watch:
                task.cancel()
        self._service.close()

    async def server(self, _request: Request) -> Response:
        return _json({"name": "paddleship", "version": __version__, "extensions": ["binary_tensor_data"]})

    async def live(self, _request: Request) -> Response:
        return _json({"live": True})

    async def ready(self, _request: Request) -> Response:
        if self._service.state is State.FAILING:
            await asyncio.wrap_future(self._service.probe())
        ready = self._service.state is State.READY
        return _json({"ready": ready}, 200 if ready else 503)

    async def metrics(self, _request: Request) -> Response:
        return Response(self._metrics.text(), media_type=MEDIA_TYPE)

    async def openapi(self, _request: Request) -> Response:
        return _json(document.of(self._json_of_loaded(), wants_token=self._service.options.tokens is not None))

    async def metadata(self, request: Request) -> Response:
        return _json(self._named(request).metadata())

    async def model_ready(self, request: Request) -> Response:
        model = self._named(request).model
        return _json({"name": model.candidate.model, "ready": model.answers}, 200 if model.answers else 503)

    async def index(self, request: Request) -> Response:
        return _json(self._service.index(only_ready=await repository.only_ready(request)))

    async def infer(self, scope: Scope, receive: Receive, send: Send, name: str | None, version: str | None) -> None:
        """Answer an inference request for a model, or one of rows if no model is named; or say why there is no answer."""
        try:
            with self._within_limit(scope):
                if name is None:
                    answer = await self._infer(self._json_of_loaded(), scope, receive, RowsRequest)
                else:
                    answer = await self._infer(self._json_of(name, version), scope, receive)
        except ClientDisconnect:
            return
        except (ServingError, RequestError) as failure:
            self._service.failures[kind_of(failure)] += 1
            await (await _explain(Request(scope), failure))(scope, receive, send)
        except Exception as failure:
            log.exception("a request failed")
            self._service.failures[Kind.DEFECT] += 1
            await (await _defect(Request(scope), failure))(scope, receive, send)
        else:
            if not scope.get(ANSWER, _not)(*answer):
                response = Response(answer[0])
                response.raw_headers += answer[1]
                await response(scope, receive, send)

    async def _infer(
        self, model: JsonModel, scope: Scope, receive: Receive, form: type[HttpRequest] = HttpRequest
    ) -> tuple[bytes, Headers]:
        """The answer to an inference request, and its headers.

        Raises ServingError, RequestError, and ClientDisconnect if nobody waits for it.
        """
        arrived, headers, loop = scope.get(ARRIVED) or time.perf_counter(), dict(scope["headers"]), asyncio.get_running_loop()
        deadline = deadlines.of_headers(headers, arrived)
        body = Body(headers, model.limits, self._service.budget)
        try:
            await body.receive(receive)
            is_gone = scope.get(IS_GONE, _not)
            scope[ASKED] = request = form(model, body, is_gone=is_gone, loop=loop, arrived=arrived, deadline=deadline)
            self._asking.ask(request)
            content = await request.answer
            return await encoded(content, request.json_bytes, body.coding)
        except Gone:
            raise ClientDisconnect from None
        finally:
            body.close()

    def _within_limit(self, scope: Scope) -> AbstractContextManager[None]:
        """Count a request as one of its client's. Raises ServingError when it is entered."""
        if self._service.clients is None:
            return _NO_LIMIT
        address, *_ = scope.get("client") or ("",)
        return self._service.clients.request(dict(scope["headers"]).get(b"authorization", b""), address)

    def _named(self, request: Request) -> JsonModel:
        """The model that the path names. Raises ServingError."""
        return self._json_of(request.path_params["name"], request.path_params.get("version"))

    def _json_of(self, name: str, version: str | None) -> JsonModel:
        self._service.model(name, version)
        return self._json or self._json_of_loaded()

    def _json_of_loaded(self) -> JsonModel:
        if self._json is None:
            count = self._service.peers.count if self._service.peers is not None else 1
            self._json = JsonModel(self._service.loaded(), batching=self._service.batching, processes=count)
        return self._json


class App:
    """The app of a service, which it starts and closes: inference, for which each microsecond counts, and Starlette for the rest."""

    def __init__(self, service: Service, guard: Guard, *, on_failure: Callable[[BaseException], None], also: Listeners = ()) -> None:
        """`on_failure` gets the exception if the model cannot be loaded. `also`: other transports, which listen as long as the app runs."""
        self._endpoints = Endpoints(service, guard, on_failure, also)
        self._rest = _rest(self._endpoints)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = _INFER.fullmatch(scope["path"]) if scope["type"] == "http" else None
        if named is None:
            await self._rest(scope, receive, send)
        elif scope["method"] == "POST":
            await self._endpoints.infer(scope, receive, send, named["name"], named["version"])
        else:
            refusal = HTTPException(HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "POST"})
            await (await _explain_route(Request(scope), refusal))(scope, receive, send)


def _not(*_: object) -> bool:
    """What a server other than ours, as in tests, cannot do or tell."""
    return False


def _rest(endpoints: Endpoints) -> Starlette:
    routes = [Route("/v2", endpoints.server), Route("/v2/health/live", endpoints.live), Route("/v2/health/ready", endpoints.ready)]
    routes.append(Route("/v2/repository/index", endpoints.index, methods=["POST"]))
    routes += [Route("/metrics", endpoints.metrics), Route("/openapi.json", endpoints.openapi)]
    routes += [Route("/", _page("index")), Route("/docs", _page("docs"))]
    for model in ("/v2/models/{name}", "/v2/models/{name}/versions/{version}"):
        routes += [Route(model, endpoints.metadata), Route(f"{model}/ready", endpoints.model_ready)]
    handlers = {HTTPException: _explain_route, ServingError: _explain, RequestError: _explain, Exception: _defect}
    app = Starlette(routes=routes, lifespan=endpoints.lifespan, exception_handlers=handlers)
    app.router.redirect_slashes = False  # a client would have to send the body again
    return app


def _page(name: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(_request: Request) -> Response:
        return pages.page(name)

    return answer


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
    return Response(orjson.dumps(content), status, headers, media_type=_JSON)
