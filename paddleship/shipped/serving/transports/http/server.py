"""The server process: uvicorn over limited connections, which sends its clients away before it stops."""

from __future__ import annotations

import asyncio
import fcntl
import functools
import resource
import signal
import socket
import ssl
from contextlib import suppress
from typing import Any

import uvicorn
import uvloop
from starlette.types import ASGIApp

from paddleship.errors import BadInput, Unavailable
from paddleship.shipped.serving.options import Options
from paddleship.shipped.serving.service import Service
from paddleship.shipped.serving.transports.http import request_log
from paddleship.shipped.serving.transports.http.app import App, Listeners
from paddleship.shipped.serving.transports.http.authorization import Authorized
from paddleship.shipped.serving.transports.http.connections import Connection, Guard
from paddleship.shipped.serving.transports.http.limits import ConnectionLimits
from paddleship.shipped.serving.transports.http.request_log import RequestLog

_LISTENING_FILE, _FEW_FILES = 1000, 16
_LEAVE_S = 2.0  # time in which a client that is connected at SIGTERM gets an answer that says that the connection closes


def run(service: Service, *, host: str, port: int, also: Listeners = ()) -> None:
    """Serve until SIGTERM, or until the model cannot be loaded. Raises Unavailable if the port is in use."""

    def stop(_failure: BaseException) -> None:
        server.should_exit = server.lifespan.should_exit = True  # also if it waits for the model before it listens

    options = service.options
    log_refusal = functools.partial(request_log.refused, service.recorder) if service.recorder.wants else None
    guard = Guard(ConnectionLimits(), service.budget, service, tokens=options.tokens, log_refusal=log_refusal)
    app = around(App(service, guard, on_failure=stop, also=also), service)
    server = make_server(app, guard, host=host, port=port, options=options)
    signal.signal(signal.SIGUSR1, lambda *_: send_clients_away(server))
    sockets = _shared(host, port) if service.peers is not None else None
    with suppress(SystemExit):  # how uvicorn ends when it cannot listen; the error below explains it
        server.run(sockets)
    if not server.started and service.failure is None:
        raise _unavailable(host, port)


def _unavailable(host: str, port: int) -> Unavailable:
    return Unavailable(f"port {port} on {host} is unavailable: choose another with --port")


def _shared(host: str, port: int) -> list[socket.socket]:
    """Sockets on the port for one of several processes: the kernel gives each connection to one of those that listen.

    Linux closes the files of a killed process from the highest number down. So the number of these is above those of connections: else the
    clients of a killed process would be given to it again when they connect anew, and lose that connection too. Raises Unavailable.
    """
    sockets, number = [], min(_LISTENING_FILE, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _FEW_FILES)
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
            with socket.socket(family, kind, protocol) as low:
                for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
                    low.setsockopt(socket.SOL_SOCKET, option, 1)
                low.bind(address)
                sockets.append(socket.socket(fileno=fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, number)))
    except OSError:
        raise _unavailable(host, port) from None
    return sockets


def around(app: ASGIApp, service: Service) -> ASGIApp:
    """The app behind what the options of its service ask for: the check of tokens, and what is noted of requests."""
    if service.options.tokens is not None:
        app = Authorized(app, service.options.tokens)
    return RequestLog(app, service.recorder) if service.recorder.wants else app


class Server(uvicorn.Server):
    """A server that at SIGTERM answers what its clients still send, and tells them to go elsewhere, before it closes their connections."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """As uvicorn's; if it ends here, the app ends before the event loop does."""
        try:
            await super().startup(sockets)
        except SystemExit:
            await self.lifespan.shutdown()
            raise

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, and wait up to `_LEAVE_S` until clients have closed the open ones; then close these too."""
        await asyncio.sleep(0)  # accept what has connected
        for server in self.servers:
            server.close()
        self.server_state.default_headers = [*self.server_state.default_headers, (b"connection", b"close")]
        connections: set[Connection] = self.server_state.connections  # type: ignore[assignment]
        for connection in [*connections]:
            connection.leave()
        deadline = asyncio.get_running_loop().time() + _LEAVE_S
        while connections and asyncio.get_running_loop().time() < deadline and not self.force_exit:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)


class Loop(uvloop.Loop):
    """An event loop that closes a client which does not complete the handshake of TLS in time, for which uvicorn has no option."""

    handshake_s = ConnectionLimits.head_timeout_s

    async def create_server(self, *arguments: Any, **settings: Any) -> Any:
        """As the loop of uvloop does."""
        if settings.get("ssl") is not None:
            settings["ssl_handshake_timeout"] = self.handshake_s
        return await super().create_server(*arguments, **settings)


def make_server(app: ASGIApp, guard: Guard, *, host: str, port: int, options: Options | None = None) -> Server:
    """The server of an ASGI app, with its connections limited by `guard`. Raises BadInput for a certificate that cannot be used."""
    certificate, key = (options.certificate, options.key) if options is not None else (None, None)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=functools.partial(Connection, guard),  # type: ignore[arg-type]  # it is called as a class is
        loop=f"{__name__}:{Loop.__name__}",
        ws="none",
        access_log=False,
        proxy_headers=False,
        log_config=None,
        timeout_keep_alive=int(guard.limits.idle_timeout_s),
        timeout_graceful_shutdown=30,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )
    try:
        config.load()
    except ssl.SSLError as error:
        raise BadInput(
            f"{certificate} and {key} cannot be used for TLS ({error.reason or error}): give a PEM certificate and its key"
        ) from None
    return Server(config)


def send_clients_away(server: uvicorn.Server) -> None:
    """Let every answer from a second later on close its connection, so that no client uses it again when the server ends."""
    server.config.encoded_headers.append((b"connection", b"close"))  # uvicorn takes them over once a second
