"""Legs of a run: consecutive stages of one work pool. Those of another pool run on a machine of that pool, and this follows them.

Prefect starts a leg as a flow run of `run-stages/POOL` (flows/run_stages.py). Params and dvc.lock travel as a snapshot through git, data
through DVC's remote, and nothing else does.
"""

from __future__ import annotations

import difflib
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import httpx
from prefect import State, get_client, get_run_logger
from prefect.client.schemas.objects import StateType
from prefect.exceptions import ObjectNotFound
from prefect.runtime import flow_run

from paddleship.config import params
from paddleship.errors import BadInput, OutOfTime, PaddleshipError, Unavailable
from paddleship.execution import failed_stage_reports, snapshots, stages
from paddleship.execution.repro import StageStatus
from paddleship.execution.stages import Stage, Until
from paddleship.execution.workspace import Workspace
from paddleship.orchestration import deployment, run_state
from paddleship.orchestration.summary import Row
from paddleship.reports.order import STAGES
from paddleship.reports.report import Report
from paddleship.shipped.computing.files import sha256, tree_sha256
from paddleship.system import environment

DEPLOYMENT = "run-stages"
_ATTEMPTS = 3
_POLL_S = 1
_PENDING_S = 300  # from when a worker took the leg until it runs; it may have to pull an image
_SERVER_AWAY_S = 300
_FINISHED = (StageStatus.RAN, StageStatus.RESTORED, StageStatus.UNCHANGED)


@dataclass(frozen=True)
class Leg:
    """Consecutive stages, and the work pool that they run in; None: where the run itself runs."""

    pool: str | None
    stages: tuple[Stage, ...]


def split(graph: Sequence[Stage], pools: Mapping[str, str]) -> list[Leg]:
    return [Leg(pool, tuple(group)) for pool, group in groupby(graph, key=lambda stage: pools.get(stage.name))]


def remote_pools(pools: Mapping[str, str], *, until: Until, checkout: Path) -> dict[str, str]:
    """The pools of the stages that this run sends to other workers. Raises BadInput if a pool, or what they need, does not exist."""
    for stage in pools:
        if stage not in STAGES:
            near = difflib.get_close_matches(stage, STAGES, n=1, cutoff=0.5)
            meant = f"did you mean {near[0]!r}?" if near else f"give one of {', '.join(STAGES)}"
            raise BadInput(f"pools (of paddleship run: --on) names {stage!r}, which is no stage: {meant}")
    wanted = {stage: pools[stage] for stage in stages.up_to(until) if stage in pools}
    if not wanted:
        return {}
    with get_client(sync_client=True) as client:
        own = client.read_flow_run(uuid.UUID(str(flow_run.id))).work_pool_name
        remote = {stage: pool for stage, pool in wanted.items() if pool != own}
        for stage, pool in remote.items():
            try:
                client.read_deployment_by_name(f"{DEPLOYMENT}/{pool}")
            except ObjectNotFound:
                raise BadInput(
                    f"pools.{stage} is {pool!r}, and no worker of that pool was ever started with this Prefect server: start one with "
                    f"`make worker POOL={pool}` in a clone on its machine, or correct the name"
                ) from None
    if until == stages.LAST:
        require_one_engine(remote)
    if remote:
        snapshots.remote(checkout)
        stages.require_remote(checkout)
    return remote


def require_one_engine(pools: Mapping[str, str]) -> None:
    """Raise BadInput if `accept` would not find the image that `package` builds."""
    package, accept = (f"in the pool {pools[name]!r}" if name in pools else "here" for name in ("package", "accept"))
    if package != accept:
        raise BadInput(f"package runs {package} and accept {accept}, but the image is only in the engine that built it: give both one pool")


_RUNNING = ("orchestration", "execution")  # packages that run stages for another machine


def versions() -> dict[str, str]:
    """What must be the same on all machines of a run: Paddle, and the code that runs stages, of which each machine has its own clone."""
    import paddleship

    installed = environment.installed(("paddlepaddle", "paddlepaddle-gpu"))
    release = next(iter(installed.values()), "none").partition("+")[0].partition(".post")[0]  # its builds for a device have suffixes
    return {
        "paddleship": f"{paddleship.__version__} with flows {_code(*(Path(paddleship.__file__).parent / name for name in _RUNNING))}",
        "Paddle": release,
    }


def _code(*folders: Path) -> str:
    """The beginning of a hash of the Python files of packages."""
    return tree_sha256({f"{folder.name}/{path.name}": sha256(path) for folder in folders for path in folder.glob("*.py")})[:12]


def run(
    leg: Leg,
    working_copy: Workspace,
    values: params.Params,
    settings: Mapping[str, str],
    *,
    apart_from: Collection[Stage],
    on_row: Callable[[Row], None],
) -> PaddleshipError | None:
    """Let a worker of the leg's pool run its stages, and take over their results. Returns the error that ended it, or None.

    `settings` are the variables of the stages; the outs of the stages `apart_from` are in DVC's remote already. A leg whose worker is
    killed is started again, and resumes after the last stage that it finished.
    """
    stages.send(working_copy.root, stages.inputs(working_copy.root, leg.stages, apart_from=apart_from))
    done: dict[str, dict[str, str]] = {}
    for attempt in range(1, _ATTEMPTS + 1):
        ref = snapshots.ref(str(flow_run.id), f"{leg.stages[0].name}-{uuid.uuid4().hex[:8]}")
        snapshots.send(working_copy.checkout, snapshots.take(working_copy.root, {"stages": {}}), ref)
        try:
            state = _follow(leg, ref, settings)
        except OutOfTime as error:
            return error
        commit = snapshots.fetch(working_copy.checkout, ref)
        snapshots.adopt(working_copy.root, commit)
        for name, facts in snapshots.facts(working_copy.checkout, commit)["stages"].items():
            if name not in done or facts["status"] in (StageStatus.RAN, StageStatus.FAILED):
                done[name] = facts
        if not state.is_crashed() or all(stage.name in done for stage in leg.stages):
            break
        get_run_logger().warning(
            "the worker of %r was lost in attempt %d of %d: %s are finished", leg.pool, attempt, _ATTEMPTS, ", ".join(done) or "no stages"
        )
    return _take_over(leg, working_copy, values, done, state, on_row)


def _take_over(
    leg: Leg,
    working_copy: Workspace,
    values: params.Params,
    done: Mapping[str, Mapping[str, str]],
    state: State[Any],
    on_row: Callable[[Row], None],
) -> PaddleshipError | None:
    """Copy the reports of the leg's stages here, and pass on the result of each."""
    reports = working_copy.root / values.paths.reports
    finished = [stage for stage in leg.stages if done.get(stage.name, {}).get("status") in _FINISHED]
    failure = _error_of(state, leg) if len(finished) < len(leg.stages) else None
    stages.fetch(
        working_copy.root, [path for stage in finished for path in stages.outs(working_copy.root, stage, below=Path(values.paths.reports))]
    )
    reported = failed_stage_reports.unpack(working_copy.root, reports)
    for stage in leg.stages:
        facts = done.get(stage.name, {})
        status = StageStatus(facts["status"]) if facts else StageStatus.FAILED
        where = f"{facts.get('host', 'no machine')} ({leg.pool})"
        has_report = (reports / f"{stage.name}.json").exists() and (status in _FINISHED or stage.name in reported)
        report = Report.read(reports, stage.name) if has_report else None
        if status in _FINISHED:
            on_row(Row(stage.name, status, report, where=where))
        elif failure is not None:
            on_row(Row(stage.name, StageStatus.FAILED, report, str(failure), where=where))
            break
    return failure


def _error_of(state: State[Any], leg: Leg) -> PaddleshipError | None:
    names = ", ".join(stage.name for stage in leg.stages)
    if state.is_crashed():
        return Unavailable(
            f"the worker of the pool {leg.pool!r} was lost {_ATTEMPTS} times while it ran {names}: see its log, then run again"
        )
    if state.is_cancelled():
        return Unavailable(f"{names} in the pool {leg.pool!r} was cancelled in Prefect: run again")
    return run_state.error(state)


def _follow(leg: Leg, ref: str, settings: Mapping[str, str]) -> State[Any]:
    """Start a leg in its pool, wait for its end, and return its last state. If this run ends first, the leg is cancelled."""
    names = [stage.name for stage in leg.stages]
    travelling = {name: value for name, value in settings.items() if name != "MLFLOW_TRACKING_URI"}  # it may hold a password
    again = [stage.name for stage in leg.stages if stage.again]
    parameters = {"run": str(flow_run.id), "ref": ref, "names": names, "again": again, "versions": versions(), "settings": travelling}
    title = f"{flow_run.name}: {', '.join(names)}"
    started = deployment.begin(f"{DEPLOYMENT}/{leg.pool}", parameters, run_name=title)
    try:
        return _wait(started.id, leg)
    except BaseException:
        with suppress(Exception):  # without a server, nothing can be cancelled
            deployment.cancel(started.id)
        raise


def _wait(run_id: uuid.UUID, leg: Leg) -> State[Any]:
    log, shown, since, away = get_run_logger(), "", time.monotonic(), 0.0
    with get_client(sync_client=True) as client:
        while True:
            try:
                state: Any = client.read_flow_run(run_id).state
                away = 0.0
            except httpx.TransportError:
                away = away or time.monotonic()
                if time.monotonic() - away > _SERVER_AWAY_S:
                    raise Unavailable(f"Prefect's server has not answered for {_SERVER_AWAY_S} s: start it, then run again") from None
                time.sleep(_POLL_S)
                continue
            if state.name != shown:
                shown, since = state.name, time.monotonic()
                hint = f": no worker has taken it yet, see `make worker POOL={leg.pool}`" if shown == "Late" else ""
                log.info("%s in the pool %s: %s%s", ", ".join(stage.name for stage in leg.stages), leg.pool, shown.lower(), hint)
            if state.is_final():
                return state  # type: ignore[no-any-return]
            stages.require_time(f"{', '.join(stage.name for stage in leg.stages)} in the pool {leg.pool!r} was stopped")
            if state.is_pending() and time.monotonic() - since > _PENDING_S:
                lost = State(type=StateType.CRASHED, message=f"its worker did not start it within {_PENDING_S} s")
                client.set_flow_run_state(run_id, lost, force=True)
            time.sleep(_POLL_S)
