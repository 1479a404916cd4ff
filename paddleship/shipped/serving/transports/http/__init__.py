"""The Open Inference Protocol v2 over HTTP/1.1, with tensors in JSON or in binary. It makes the process of a server."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddleship.shipped.serving.service import Service


def serve(service: Service, *, host: str, port: int, also: Sequence[AbstractAsyncContextManager[None]] = ()) -> None:
    """Start the service and answer requests, until SIGTERM or until the model cannot be loaded. Raises Unavailable for the port.

    `also` are other transports, which listen meanwhile. SIGUSR1, some seconds before, makes clients with open connections go elsewhere
    without an error.
    """
    from paddleship.shipped.serving.transports.http import server

    server.run(service, host=host, port=port, also=also)


def is_ready(*, host: str, port: int) -> bool:
    """Whether the server there is ready. With little more than the standard library, because containers ask often."""
    from paddleship.shipped.serving.transports.http import health

    return health.is_ready(host, port)
