"""The ways to reach the served model: each folder here is one, and the only one that knows its protocol.

Its `__init__.py` has the functions of `Transport`, and imports what they need when they are called.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from paddleship.shipped.serving.service import Service


class Transport(Protocol):
    """What the package of a transport has."""

    def serve(self, service: Service, *, host: str, port: int) -> None:
        """Start the service and answer requests, until SIGTERM or until the model cannot be loaded. Raises Unavailable for the port."""

    def is_ready(self, *, host: str, port: int) -> bool:
        """Ask a server of this transport whether it is ready, with little more than the standard library: containers do so often."""


def names() -> list[str]:
    """The names of all transports."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)


def get(name: str) -> Transport:
    """The transport of this name."""
    return cast(Transport, import_module(f"{__name__}.{name}"))
