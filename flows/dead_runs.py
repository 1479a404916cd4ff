"""Prefect's record of dead flow runs: a run holds a lock while it lives, and the next one marks those whose process has ended.

A server that `make ui` started does so too, after three missing heartbeats; a temporary server ends with its run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed

from flows.local import Local
from paddleship.system import locks

_MESSAGE = "its process was killed, or the machine went down"


@contextmanager
def alive(local: Local, run_id: str) -> Iterator[None]:
    """Hold the lock of a flow run during the block; before it, dead runs of the checkout are marked as crashed."""
    own = local.state / "flows" / f"{run_id}.lock"
    for path in own.parent.glob("*.lock"):
        if path != own and (lock := locks.take(path)) is not None:
            with lock:
                _mark(UUID(path.stem))
                path.unlink(missing_ok=True)
    with locks.wait_for(own):
        try:
            yield
        finally:
            own.unlink(missing_ok=True)


def _mark(run_id: UUID) -> None:
    """Mark a flow run as crashed, unless it has ended or belongs to another server."""
    with get_client(sync_client=True) as client, suppress(ObjectNotFound):
        state = client.read_flow_run(run_id).state
        if state is None or not state.is_final():
            client.set_flow_run_state(run_id, Crashed(message=_MESSAGE), force=True)
