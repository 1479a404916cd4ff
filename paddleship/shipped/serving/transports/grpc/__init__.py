"""The Open Inference Protocol v2 over gRPC, beside HTTP in the same process: it listens once the model is loaded."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddleship.shipped.serving.service import Service

PORT = 8001
REQUIREMENTS = "grpc.txt"


def listening(service: Service, *, host: str, port: int) -> AbstractAsyncContextManager[None]:
    """Listen while the block runs, and finish the running requests at its end. A port in use is the failure of the service."""
    from paddleship.shipped.serving.transports.grpc import server

    return server.listening(service, host=host, port=port)
