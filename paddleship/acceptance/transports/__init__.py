"""The protocols that a server can be tested over, one folder each."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from paddleship.acceptance.transport import Server
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


_OTHERS = {"grpc": GrpcServer}
