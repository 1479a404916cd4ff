"""Prefect's record of flow runs that ended without saying so: killed, or unable to write their last state.

A run holds a lock until its process ends, and the next run looks at those that nobody holds. A server that `make ui` started marks
such runs too, after three missing heartbeats; a temporary server ends with its run.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

from prefect.client.orchestration import get_client
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed

from flows.local import Local
from paddleship.system import locks

_MESSAGE = "its process ended without a last state: it was killed, the machine went down, or the disk was full"
_held: list[Any] = []


def hold(local: Local, run_id: str) -> None:
    """Hold the lock of a flow run until this process ends; before it, dead runs of the checkout are marked as crashed."""
    own = local.state / "flows" / f"{run_id}.lock"
    with locks.wait_for(local.state / "flows.lock"):  # so that no run looks at another one that has no lock yet
        for path in own.parent.glob("*.lock"):
            if path != own and (lock := locks.take(path)) is not None:
                with lock:
                    _mark(UUID(path.stem))
                    path.unlink(missing_ok=True)
        _held.append(locks.wait_for(own))


def _mark(run_id: UUID) -> None:
    """Mark a flow run as crashed, unless it has ended or belongs to another server."""
    with get_client(sync_client=True) as client, suppress(ObjectNotFound):
        state = client.read_flow_run(run_id).state
        if state is None or not state.is_final():
            client.set_flow_run_state(run_id, Crashed(message=_MESSAGE), force=True)
