"""Heartbeats of flow runs from a thread that does not delay the end of a flow by up to a second, as that of Prefect 3.8 does."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

THREAD = "heartbeats"
_EMITTING_S = 2


def use() -> None:
    """Let Prefect send heartbeats in this way, in this process."""
    from prefect import flow_engine

    flow_engine._send_heartbeats = _send


@contextmanager
def _send(engine: Any, join_on_exit: bool = True) -> Iterator[None]:
    """A block during which a flow run sends heartbeats, if it is configured to."""
    seconds = engine.heartbeat_seconds
    if seconds is None:
        yield
        return
    event, over = engine._build_heartbeat_event_template(), threading.Event()

    def send() -> None:
        while not over.is_set():
            with suppress(Exception):  # a flow runs on without its server
                engine._emit_flow_run_heartbeat(*event)
            over.wait(seconds)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(send,), name=THREAD, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        if join_on_exit:
            thread.join(_EMITTING_S)
