"""The methods of the protocol, from the service that all transports share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from paddleship import __version__
from paddleship.errors import RequestError
from paddleship.shipped.serving.asking import Asking
from paddleship.shipped.serving.errors import Kind, ServingError, kind_of
from paddleship.shipped.serving.options import Tokens
from paddleship.shipped.serving.service import Service, State
from paddleship.shipped.serving.transports.grpc import limits, request_log, statuses, tensors
from paddleship.shipped.serving.transports.grpc.deadlines import Deadlines
from paddleship.shipped.serving.transports.grpc.infer_request import InferRequest
from paddleship.shipped.serving.transports.grpc.limits import MessageLimits
from paddleship.shipped.serving.transports.grpc.messages import CLASSES, SERVICE

log = logging.getLogger("paddleship.shipped.serving")

_HEALTH = ("ServerLive", "ServerReady")
_Answer = Callable[[bytes], Awaitable[bytes]]


class Servicer:
    """Answers to the methods. A message is read only if there is room for the largest one, and counts against the budget from then on."""

    def __init__(self, service: Service, limits: MessageLimits) -> None:
        self._service, self._limits, self._asking = service, limits, Asking(service)
        self.deadlines, self._stopping = Deadlines(), False

    def refuse(self) -> None:
        """Answer what was sent before, and refuse every other request from now on: gRPC itself would cancel what it has not begun."""
        self._stopping = True

    def handler(self) -> Any:
        """All methods. Streams, for gRPC, so that the servicer reads and writes each message when there is room; no client sees that."""
        simple = (self.server_live, self.server_ready, self.server_metadata, self.model_ready, self.model_metadata, self.repository_index)
        tokens, others = self._service.options.tokens, self._limits.other_readers
        served = {"ModelInfer": self._serving(self.infer, self._limits.readers, tokens, limited=True)}
        for method in simple:
            name = "".join(part.title() for part in method.__name__.split("_"))
            answer = _decoded(CLASSES[f"{name}Request"], CLASSES[f"{name}Response"], method)
            served[name] = self._serving(answer, None, None) if name in _HEALTH else self._serving(answer, others, tokens)
        if (recorder := self._service.recorder).wants:
            served |= {name: request_log.noting(recorder, name, serve) for name, serve in served.items() if name not in _HEALTH}
        handlers = {name: grpc.stream_stream_rpc_method_handler(serve) for name, serve in served.items()}
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    async def server_live(self, _request: Any) -> dict[str, Any]:
        return {"live": True}

    async def server_ready(self, _request: Any) -> dict[str, Any]:
        if self._service.state is State.FAILING:
            await asyncio.wrap_future(self._service.probe())
        return {"ready": self._service.state is State.READY and not self._stopping}

    async def server_metadata(self, _request: Any) -> dict[str, Any]:
        return {"name": "paddleship", "version": __version__, "extensions": []}

    async def model_ready(self, request: Any) -> dict[str, Any]:
        return {"ready": self._service.model(request.name, request.version or None).answers}

    async def model_metadata(self, request: Any) -> dict[str, Any]:
        model = self._service.model(request.name, request.version or None)
        described = {
            name: [tensors.describe(spec) for spec in specs] for name, specs in (("inputs", model.requests), ("outputs", model.outputs))
        }
        return {"name": model.candidate.model, "versions": [model.version], "platform": model.candidate.runtime, **described}

    async def repository_index(self, request: Any) -> dict[str, Any]:
        return {"models": self._service.index(only_ready=request.ready)}

    async def infer(self, content: bytes) -> bytes:
        """The answer to an inference request. Raises ServingError and RequestError."""
        if self._stopping:
            raise ServingError(Kind.STOPPING, "the server is stopping: send the request to another one")
        request = InferRequest(self._service, self._limits, content, loop=asyncio.get_running_loop())
        request_log.ASKED.set(request)
        try:
            self._asking.ask(request)
            return await request.answer
        finally:
            request.forget()

    def _serving(
        self, answer: _Answer, readers: int | None, tokens: Tokens | None, *, limited: bool = False
    ) -> Callable[[Any, Any], Awaitable[None]]:
        """The handler of a method, which reads so many messages at a time, of clients that have one of the tokens.

        Without readers, it answers at once, whatever the message, so that no client who sends none makes others wait. `limited`: a client
        may have so many requests in flight as the options say.
        """
        free = asyncio.Semaphore(readers) if readers is not None else None

        async def serve(_messages: Any, context: Any) -> None:
            if tokens is not None and not tokens.allow(_authorization(context)):
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "this server wants a token: send it as `authorization: Bearer TOKEN`")
            try:
                with self._within_limit(context) if limited else nullcontext():
                    await self._serve(context, answer, free)
            except Exception as failure:
                self._service.failures[kind_of(failure)] += 1
                if kind_of(failure) is Kind.DEFECT:
                    log.exception("a request failed")
                status = statuses.status(failure)
            else:
                return
            with _unless_gone():  # here, so that its exception does not hold the frames of the failure, and with them the message
                await context.abort(*status)

        return serve

    def _within_limit(self, context: Any) -> AbstractContextManager[None]:
        """Count a request as one of its client's. Raises ServingError when it is entered."""
        clients = self._service.clients
        return nullcontext() if clients is None else clients.request(_authorization(context), _address(context))

    async def _serve(self, context: Any, answer: _Answer, free: asyncio.Semaphore | None) -> None:
        """Read a message and write its answer. Raises ServingError and RequestError."""
        content = await self._read(context, free) if free is not None else b""
        size = len(content)
        self._service.budget.take(size)
        try:
            reply = await answer(content)
        finally:
            del content  # before a client takes its time to read the answer
            self._service.budget.give_back(size)
        await self._write(context, reply)

    async def _read(self, context: Any, free: asyncio.Semaphore) -> bytes:
        """The one message of a request. Raises ServingError and RequestError."""
        try:
            with self.deadlines.within(limits.WAIT_S):
                await free.acquire()
        except TimeoutError:
            raise ServingError(Kind.BUSY, "other clients send large requests: try again later") from None
        try:
            with self.deadlines.within(self._limits.read_s):
                content = await context.read()
        except TimeoutError:
            raise RequestError(f"the message was not complete after {self._limits.read_s:.0f} s: send it at once") from None
        finally:
            free.release()
        if not isinstance(content, bytes):  # the end of the stream
            if context.cancelled():
                raise asyncio.CancelledError
            raise RequestError("the request has no message: send one")
        return content

    async def _write(self, context: Any, content: bytes) -> None:
        """Send an answer, which counts against the budget with gRPC's copy of it until the client has read it. Raises RequestError."""
        size = 2 * len(content)
        self._service.budget.hold(size)
        try:
            with self.deadlines.within(limits.WRITE_S), _unless_gone():
                await context.write(content)
        except TimeoutError:
            raise RequestError(f"the answer was not read within {limits.WRITE_S} s: read it at once") from None
        finally:
            self._service.budget.give_back(size)


@contextmanager
def _unless_gone() -> Iterator[None]:
    """Ends the request where gRPC cannot send any more, because its client has gone: that is no failure of the server."""
    try:
        yield
    except grpc.aio.InternalError:
        raise asyncio.CancelledError from None


def _authorization(context: Any) -> bytes:
    """What the client sent as `authorization`; empty if nothing."""
    value = next((value for key, value in context.invocation_metadata() if key == "authorization"), b"")
    return value.encode() if isinstance(value, str) else bytes(value)


def _address(context: Any) -> str:
    """The IP address of the client, which gRPC gives as `ipv4:127.0.0.1:50000` or `ipv6:%5B::1%5D:50000`."""
    return unquote(context.peer()).partition(":")[2].rpartition(":")[0].strip("[]")


def _decoded(request: Any, response: Any, method: Callable[[Any], Awaitable[dict[str, Any]]]) -> _Answer:
    """A method of small messages as one of bytes."""

    async def answer(content: bytes) -> bytes:
        if len(content) > limits.UNCHECKED_BYTES:
            raise ServingError(Kind.TOO_LARGE, f"the message is larger than {limits.UNCHECKED_BYTES} bytes: send what the method needs")
        try:
            message = request.FromString(content)
        except DecodeError:
            raise RequestError(f"the message is not a {request.DESCRIPTOR.name}: send one of the Open Inference Protocol") from None
        return bytes(response(**await method(message)).SerializeToString())

    return answer
