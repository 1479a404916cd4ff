"""The protocols that a server can be tested over, one folder each."""

from __future__ import annotations

from paddleship.acceptance.transport import Server
from paddleship.acceptance.transports.http.server import HttpServer


def server_at(host: str, port: int, *, model: str, timeout_s: float = 30) -> Server:
    """The server of an image, over the transport that images serve."""
    return HttpServer(host, port, model=model, timeout_s=timeout_s)
