"""Why a flow run of a deployment has not begun: its work pool is paused, has no worker, or has one that is busy or was lost."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

AFTER_S = 20  # a worker looks for runs every second, and then needs some seconds to begin one on a busy machine


@dataclass
class Waiting:
    """A flow run that was due at `since`, until it has begun; each reason is reported once."""

    since: float = field(default_factory=time.monotonic)
    reported: str = ""

    def reason(self, client: SyncPrefectClient, run: Any) -> str | None:
        """Why the run waits, if it has waited for long and the reason is new."""
        if run.state is None or not (run.state.is_scheduled() or run.state.is_pending()):
            self.since = time.monotonic()  # a run that is retried or resumed waits again
            return None
        if not run.work_pool_name or time.monotonic() - self.since < AFTER_S:
            return None
        reason = _reason(client, run)
        if reason == self.reported:
            return None
        self.reported = reason
        return reason


def _reason(client: SyncPrefectClient, run: Any) -> str:
    pool = run.work_pool_name
    worker = "`make worker`" if pool == "local" else f"`make worker POOL={pool}`"
    if run.state.is_pending():
        return (
            f"a worker of the pool {pool!r} has taken the run and not begun it: if this stays so, its worker was lost; see its output, "
            f"start one with {worker}, cancel the run with `prefect flow-run cancel {run.id}`, and start it again"
        )
    if client.read_work_pool(pool).is_paused:
        return f"the work pool {pool!r} is paused: `prefect work-pool resume {pool}`"
    if any(one.status == "ONLINE" for one in client.read_workers_for_work_pool(pool)):
        return (
            f"no worker of the pool {pool!r} has taken the run yet: its workers or the pool run as many as their limits allow, or a worker "
            f"was lost within the last minutes; see its output, or start another one with {worker}"
        )
    return f"no worker of the pool {pool!r} is running: start one with {worker}"
