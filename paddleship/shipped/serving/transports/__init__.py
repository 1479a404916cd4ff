"""The ways to reach the served model: each folder here is one, and the only one that knows its protocol.

`http` makes the process, starts the service and stops at SIGTERM. Each other one listens beside it on a port of its own: its `__init__.py`
has what `Transport` says, and imports what it needs when it is called.
"""

from __future__ import annotations

import pkgutil
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from paddleship.shipped.serving.service import Service

HTTP = "http"


class Transport(Protocol):
    """What the package of a transport beside HTTP has: the port in images, and the file in docker/requirements with its packages."""

    PORT: int
    REQUIREMENTS: str

    def listening(self, service: Service, *, host: str, port: int) -> AbstractAsyncContextManager[None]:
        """Listen while the block runs, and finish the running requests at its end. A port in use is the failure of the service."""


def names() -> list[str]:
    """The names of all transports beside HTTP."""
    return sorted({module.name for module in pkgutil.iter_modules(__path__) if module.ispkg} - {HTTP})


def get(name: str) -> Transport:
    """The transport of this name."""
    return cast(Transport, import_module(f"{__name__}.{name}"))
