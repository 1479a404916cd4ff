"""The Open Inference Protocol v2 over HTTP/1.1, with tensors in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddleship.shipped.serving.service import Service


def serve(service: Service, *, host: str, port: int) -> None:
    """Start the service and answer requests, until SIGTERM or until the model cannot be loaded. Raises Unavailable for the port.

    SIGUSR1, some seconds before, makes clients with open connections go elsewhere without an error.
    """
    from paddleship.shipped.serving.transports.http import server

    server.run(service, host=host, port=port)


def is_ready(*, host: str, port: int) -> bool:
    """Whether the server there is ready."""
    from paddleship.shipped.serving.transports.http import health

    return health.is_ready(host, port)
