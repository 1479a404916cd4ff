"""The gRPC server of a process: it begins to listen once the model is loaded, because its limits are those of the model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
from grpc import aio

from paddleship.errors import Unavailable
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.options import Options
from paddleship.shipped.serving.service import Service
from paddleship.shipped.serving.transports.grpc import limits
from paddleship.shipped.serving.transports.grpc.servicer import Servicer

_REFUSE_S, _GRACE_S = 0.5, 30


@asynccontextmanager
async def listening(service: Service, *, host: str, port: int) -> AsyncIterator[None]:
    """Listen while the block runs; at its end, accept no more requests and finish those that run."""
    listener = _Listener(service, host, port)
    service.before_ready.append(listener.begin)
    try:
        yield
    finally:
        await listener.end()


class _Listener:
    def __init__(self, service: Service, host: str, port: int) -> None:
        self._service, self._host, self._port = service, host, port
        self._loop, self._lock = asyncio.get_running_loop(), threading.Lock()
        self._begun: Future[None] | None = None
        self._server: Any = None
        self._servicer: Servicer | None = None
        self._watch: asyncio.Task[None] | None = None
        self._ended = False

    def begin(self, model: ServedModel) -> None:
        """Listen, from another thread than that of the event loop. Raises Unavailable if the port is in use."""
        with self._lock:
            if self._ended:
                return
            self._begun = asyncio.run_coroutine_threadsafe(self._start(model), self._loop)
        with suppress(CancelledError):  # the server has been stopped meanwhile
            self._begun.result()

    async def end(self) -> None:
        with self._lock:
            self._ended = True
        if self._begun is not None:
            self._begun.cancel()
        if self._server is not None and self._servicer is not None:
            self._servicer.refuse()
            await asyncio.sleep(_REFUSE_S)
            await self._server.stop(_GRACE_S)
        if self._watch is not None:
            self._watch.cancel()

    async def _start(self, model: ServedModel) -> None:
        allowed = limits.of_messages(model)
        self._server = aio.server(
            options=_options(allowed, shared=self._service.peers is not None), maximum_concurrent_rpcs=limits.MAX_REQUESTS
        )
        self._servicer = Servicer(self._service, allowed)
        self._server.add_generic_rpc_handlers((self._servicer.handler(),))
        host = f"[{self._host}]" if ":" in self._host else self._host
        address, credentials = f"{host}:{self._port}", _credentials(self._service.options)
        try:
            if credentials is None:
                self._server.add_insecure_port(address)
            else:
                self._server.add_secure_port(address, credentials)
        except RuntimeError:
            raise Unavailable(f"port {self._port} on {self._host} is unavailable: choose another with --also grpc:PORT") from None
        await self._server.start()
        self._watch = asyncio.create_task(self._servicer.deadlines.watch())


def _credentials(options: Options) -> Any:
    """The certificate of TLS; None without one."""
    if options.certificate is None or options.key is None:
        return None
    return grpc.ssl_server_credentials([(options.key.read_bytes(), options.certificate.read_bytes())])


def _options(allowed: limits.MessageLimits, *, shared: bool) -> list[tuple[str, int]]:
    return [
        ("grpc.so_reuseport", int(shared)),  # without it, a port in use is an error
        ("grpc.http2.bdp_probe", 0),  # which lets a connection send megabytes before they are asked for
        ("grpc.max_receive_message_length", allowed.max_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", limits.MAX_STREAMS),
        ("grpc.max_connection_idle_ms", 1000 * limits.IDLE_S),
        ("grpc.server_handshake_timeout_ms", 1000 * limits.HANDSHAKE_S),
    ]
