"""The flow `run-stages`: a leg of a run that another machine started, on a worker of the pool that its stages need."""

from __future__ import annotations

import os
import platform
import signal
import threading
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from prefect import State, flow, get_client, get_run_logger
from prefect.client.schemas.objects import StateType
from prefect.runtime import flow_run
from prefect.states import Completed

from paddleship.errors import PaddleshipError, Unavailable
from paddleship.execution import cleanup, failed_stage_reports, snapshots, stages, workspace
from paddleship.execution.repro import StageStatus
from paddleship.execution.workspace import Workspace
from paddleship.orchestration import crashed_runs, run_state, stage_groups, stage_tasks
from paddleship.orchestration.summary import Row
from paddleship.servers.local_state import Local
from paddleship.stage.fingerprint import fingerprint

_WATCH_S = 15
_GRACE_S = 30


@flow(name=stage_groups.DEPLOYMENT, validate_parameters=True, log_prints=False)
def run_stages(run: str, ref: str, names: list[str], again: list[str], versions: dict[str, str], settings: dict[str, str]) -> State[Any]:
    """Run stages of another flow run, and return their outs and reports to it. A run with `pools` starts it; it is not started by hand.

    Args:
        run: Id of the flow run that these stages belong to.
        ref: Name of the snapshot in the git remote: the state of the run, which each finished stage replaces.
        names: The stages, in run order.
        again: Those of them that run although nothing changed.
        versions: Versions of paddleship and Paddle where the run was started.
        settings: Environment variables of the stages.
    """
    if (ended := _ended_before()) is not None:
        get_run_logger().warning("this leg ended before (%s), and its run went on without it: nothing is done", ended.name)
        return ended
    try:
        _require_versions(versions)
        checkout = workspace.checkout_of(Path.cwd())
        crashed_runs.hold(Local.of(checkout))
        cleanup.sweep(checkout, on_line=get_run_logger().warning)
        commit = snapshots.fetch(checkout, ref)
        working_copy = workspace.isolate(checkout, f"{workspace.LEG}{flow_run.id}", {}, snapshots.base(checkout, commit))
        try:
            snapshots.adopt(working_copy.root, commit)
            return _run(working_copy, names, again, _Handover(working_copy, ref, commit), settings, run)
        finally:
            snapshots.drop(checkout, ref)
            working_copy.release()
    except PaddleshipError as error:
        return run_state.failed(error)


def _ended_before() -> State[Any] | None:
    """The state in which this leg has ended already; a cluster may replace the pod of a leg that was lost or even finished."""
    with get_client(sync_client=True) as client:
        states = client.read_flow_run_states(uuid.UUID(str(flow_run.id)))
    final = [state for state in sorted(states, key=lambda state: state.timestamp) if state.is_final()]
    return State(type=final[-1].type, name=final[-1].name, message=final[-1].message) if final else None


class _Handover:
    """Sends the state of the run back after each stage, so that no finished stage is lost with this machine."""

    def __init__(self, working_copy: Workspace, ref: str, commit: str) -> None:
        self._working_copy, self._ref, self._last = working_copy, ref, commit
        self._done: dict[str, dict[str, str]] = {}

    def __call__(self, row: Row, address: str, reports: Path) -> None:
        """Push the outs of a finished stage, or the evidence of a failed one, and then the snapshot. Raises Unavailable."""
        root = self._working_copy.root
        failed = row.status == StageStatus.FAILED
        also = failed_stage_reports.pack(root, reports, row.stage) if failed else []
        if not failed:
            stages.send(root, [address])
        self._done[row.stage] = {"status": row.status, "host": platform.node()}
        commit = snapshots.take(root, {"stages": self._done}, also=also)
        snapshots.send(self._working_copy.checkout, commit, self._ref, instead_of=self._last)
        self._last = commit


def _run(
    working_copy: Workspace, names: list[str], again: list[str], hand_back: _Handover, settings: dict[str, str], run: str
) -> State[Any]:
    values = working_copy.params()
    wanted = [replace(stage, again=stage.name in again) for stage in stages.graph(working_copy.root) if stage.name in names]
    stage_tasks.require(values, names)
    fingerprint(values, working_copy.root)
    addresses = {stage.name: stage.address for stage in wanted}
    reports = working_copy.root / values.paths.reports
    with _Watch(run):
        stages.fetch(working_copy.root, stages.inputs(working_copy.root, wanted))
        failure = stage_tasks.run_each(
            wanted, working_copy, values, settings, on_row=lambda row: hand_back(row, addresses[row.stage], reports)
        )
    working_copy.remove()
    return run_state.failed(failure) if failure else Completed(message=f"{', '.join(names)} on {platform.node()}")


class _Watch:
    """A block that ends this leg when the run that it belongs to has ended without it: killed, crashed or cancelled."""

    def __init__(self, run: str) -> None:
        self._run, self._leg = uuid.UUID(run), uuid.UUID(str(flow_run.id))
        self._over = threading.Event()

    def __enter__(self) -> None:
        threading.Thread(target=self._watch, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(_WATCH_S):
            with suppress(httpx.HTTPError), get_client(sync_client=True) as client:  # the server may be away for a while
                state = client.read_flow_run(self._run).state
                if state is not None and state.is_final():
                    client.set_flow_run_state(self._leg, State(type=StateType.CANCELLING))
                    break
        if not self._over.wait(_GRACE_S):  # its worker may be gone, which would end it
            os.kill(os.getpid(), signal.SIGTERM)


def _require_versions(theirs: dict[str, str]) -> None:
    """Raise Unavailable if this machine has other versions than the one that started the run."""
    ours = stage_groups.versions()
    for name in theirs:
        if ours.get(name) != theirs[name]:
            raise Unavailable(
                f"{platform.node()} has {name} {ours.get(name, 'of no version')}, and the run was started with {name} {theirs[name]}: "
                "give both machines the same one (`git pull`, `make setup`), then run again"
            )
