"""Prefect's record of flow runs that ended without saying so: killed, or unable to write their last state.

A flow run holds a lock until its process ends, or until a command has seen its last state. The next command in the checkout marks those
that nobody holds, if it has a Prefect server. A server that `make ui` started marks such runs too, after three missing heartbeats; a
temporary server ends with its run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from flows.local import Local
from paddleship.system import locks

_MESSAGE = "its process ended without a last state: it was killed, the machine went down, or the disk was full"
_held: list[Any] = []


def hold(local: Local) -> None:
    """Hold the lock of this flow run until its process ends; before it, dead flow runs of the checkout are marked as crashed."""
    from prefect.runtime import flow_run

    own = _folder(local) / f"{flow_run.id}.lock"  # it is there already if this is a retry of a run that was killed
    with _alone(local):
        _mark_all(local, but=own)
        _held.append(locks.wait_for(own))


def release() -> None:
    """Remove the locks of this process, whose flow runs have told Prefect their last states: the next command has nothing to ask about."""
    while _held:
        lock = _held.pop().lock
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def any_left(local: Local) -> bool:
    """Whether a flow run of the checkout ended without a command that saw its last state."""
    return not all(locks.is_held(path) for path in _folder(local).glob("*.lock"))


def mark(local: Local) -> list[str]:
    """Mark dead flow runs of the checkout as crashed. Returns their ids; none if no server answers, and a later command marks them."""
    if not any_left(local) or local.prefect_url() is None:
        return []
    local.use()
    from httpx import HTTPError

    with _alone(local), suppress(HTTPError):
        return _mark_all(local)
    return []


def _mark_all(local: Local, *, but: Path | None = None) -> list[str]:
    marked = []
    for path in _folder(local).glob("*.lock"):
        if path != but and (lock := locks.take(path)) is not None:
            with lock:
                if _mark(UUID(path.stem)):
                    marked.append(path.stem)
                path.unlink(missing_ok=True)
    return marked


def _mark(run_id: UUID) -> bool:
    """Mark a flow run as crashed, unless it has ended, is to be retried, or belongs to another server."""
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound
    from prefect.states import Crashed

    with get_client(sync_client=True) as client, suppress(ObjectNotFound):
        state = client.read_flow_run(run_id).state
        if state is not None and (state.is_running() or state.is_paused() or state.is_cancelling()):
            client.set_flow_run_state(run_id, Crashed(message=_MESSAGE), force=True)
            return True
    return False


@contextmanager
def _alone(local: Local) -> Iterator[None]:
    """A block during which no other flow run is about to take its lock."""
    with locks.wait_for(local.state / "flows.lock"):
        yield


def _folder(local: Local) -> Path:
    return local.state / "flows"
