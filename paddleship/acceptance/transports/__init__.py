"""The protocols that a server can be tested over, one folder each."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from paddleship.acceptance.transport import Malformed, Server, ServerError
from paddleship.acceptance.transports.grpc.server import GrpcServer
from paddleship.acceptance.transports.http.server import HttpServer


def server_at(host: str, port: int, *, model: str, timeout_s: float = 30) -> Server:
    """The server of an image, over the transport that all images serve."""
    return HttpServer(host, port, model=model, timeout_s=timeout_s)


def other_server(name: str, host: str, port: int, *, beside: Server, model: str, timeout_s: float = 30) -> Server:
    """The same server over another transport. Raises ServerError if the one `beside` it has no metadata."""
    with closing(beside.connect()) as client:
        parameters: Mapping[str, Any] = client.metadata().get("parameters", {})
    return _OTHERS[name](host, port, model=model, timeout_s=timeout_s, parameters=parameters)


def replaced_processes(server: Server) -> int:
    """How many processes of a server over HTTP have ended and were replaced, by its metrics. Raises ServerError."""
    with closing(server.connect()) as client:
        reply = client.provoke(Malformed("metrics", b"", (), method="GET", path="/metrics"))
    lines = reply.payload.decode(errors="replace").splitlines()
    if found := [line for line in lines if line.startswith(f"{_REPLACED} ")]:
        return int(float(found[0].rpartition(" ")[2]))
    raise ServerError(f"the server has no metric {_REPLACED} ({reply.code}): {reply.text(100)}", reply.code)


_REPLACED = "paddleship_processes_replaced_total"
_OTHERS = {"grpc": GrpcServer}
