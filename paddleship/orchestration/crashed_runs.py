"""Flow runs that ended without reporting it to Prefect: killed, or unable to write their last state.

A command holds a lock before Prefect knows of the flow runs that it starts, whose tag is the name of that lock; a flow run that a worker
started holds a lock of its own. A lock is free when its process has ended. The next command in the checkout marks the flow runs of free
locks, if it has a Prefect server. A server that `make ui` started marks such runs too, after three missing heartbeats; a temporary server
ends with its run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from paddleship.servers.local_state import Local
from paddleship.system import locks

_MESSAGE = "its process ended without a last state: it was killed, the machine went down, or the disk was full"
_COMMAND = "command-"
_held: list[Any] = []


@contextmanager
def known(local: Local) -> Iterator[None]:
    """A block in which a command runs a flow: if it is killed, the next command finds the flow run by its tag."""
    from prefect import tags

    name = f"{_COMMAND}{uuid4().hex[:12]}"
    with _locked(local):
        lock = locks.wait_for(_folder(local) / f"{name}.lock")
    with tags(name):
        yield
    Path(lock.lock.lock_file).unlink(missing_ok=True)  # Prefect has the last state: the next command has nothing to ask about
    lock.lock.release()


def hold(local: Local) -> None:
    """Mark dead flow runs of the checkout; a flow run that no command of the checkout started is held until its process ends."""
    from prefect.runtime import flow_run

    own = _folder(local) / f"{flow_run.id}.lock"  # it is there already if this is a retry of a run that was killed
    with _locked(local):
        _mark_all(local, but=own)
        if not any((_folder(local) / f"{tag}.lock").exists() for tag in flow_run.tags):
            _held.append(locks.wait_for(own))


def any_left(local: Local) -> bool:
    """Whether a flow run of the checkout ended without a command that saw its last state."""
    return not all(locks.is_held(path) for path in _folder(local).glob("*.lock"))


def mark(local: Local) -> list[str]:
    """Mark dead flow runs of the checkout as crashed. Returns their ids; none if no server answers, and a later command marks them."""
    if not any_left(local) or local.prefect_url() is None:
        return []
    local.use()
    from httpx import HTTPError

    with _locked(local), suppress(HTTPError):
        return _mark_all(local)
    return []


def _mark_all(local: Local, *, but: Path | None = None) -> list[str]:
    marked = []
    for path in _folder(local).glob("*.lock"):
        if path != but and (lock := locks.take(path)) is not None:
            with lock:
                marked += _mark(path.stem)
                path.unlink(missing_ok=True)
    return marked


def _mark(name: str) -> list[str]:
    """Mark the flow runs of a lock as crashed, unless they ended, are to be retried, or belong to another server. Returns their ids."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas import filters
    from prefect.client.schemas.objects import StateType
    from prefect.states import Crashed

    unended = [StateType.RUNNING, StateType.PAUSED, StateType.CANCELLING]
    if name.startswith(_COMMAND):
        wanted = filters.FlowRunFilter(tags=filters.FlowRunFilterTags(all_=[name]))
        unended.append(StateType.PENDING)  # nobody else would start it
    else:
        wanted = filters.FlowRunFilter(id=filters.FlowRunFilterId(any_=[UUID(name)]))
    wanted.state = filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=unended))
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(flow_run_filter=wanted)
        for run in runs:
            client.set_flow_run_state(run.id, Crashed(message=_MESSAGE), force=True)
    return [str(run.id) for run in runs]


@contextmanager
def _locked(local: Local) -> Iterator[None]:
    """A block during which no other command or flow run is about to take its lock."""
    with locks.wait_for(local.state / "flows.lock"):
        yield


def _folder(local: Local) -> Path:
    return local.state / "flows"
