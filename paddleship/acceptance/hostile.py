"""Provoke a server: malformed requests, which it must refuse, and unfinished ones, which it must survive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing

from paddleship.acceptance.transport import Malformed, Outcome, Reply, Server, ServerError

_PATIENCE_S = 10


def try_all(server: Server, tried: Iterable[Malformed]) -> list[str]:
    """Send all requests. Returns those that got a wrong code, and those after which the server was not ready."""
    faults = []
    for request in tried:
        with closing(server.connect()) as client:
            reply = _reply(lambda client=client, request=request: client.provoke(request))  # type: ignore[misc]
            if reply is None or reply.code not in request.allowed:
                faults.append(f"{request.name}: {_code(reply)}")
            if not _is_ready(health := _reply(client.ready)):
                faults.append(f"after {request.name} the server is no longer ready ({_code(health)})")
    return faults


def flood(server: Server) -> list[str]:
    """Ask for the health of a server that has unfinished requests."""
    with server.unfinished(), closing(server.connect()) as client:
        health = _reply(client.ready)
    return [] if _is_ready(health) else [f"beside unfinished requests the server is no longer ready ({_code(health)})"]


def recovers(answers: Callable[[], bool]) -> bool:
    """Whether a good request gets its answer again within some seconds."""
    deadline = time.monotonic() + _PATIENCE_S
    while not (answered := answers()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return answered


def _reply(ask: Callable[[], Reply]) -> Reply | None:
    try:
        return ask()
    except ServerError:
        return None


def _is_ready(health: Reply | None) -> bool:
    return health is not None and health.outcome is Outcome.ANSWERED


def _code(reply: Reply | None) -> str:
    return str(reply.code) if reply is not None else "no answer"
