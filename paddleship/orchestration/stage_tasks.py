"""Run stages on this machine, one Prefect task each."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from prefect import State, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import TaskRun

from paddleship.config import catalogue, params, preflight
from paddleship.containers import image
from paddleship.errors import PaddleshipError
from paddleship.execution import measurement_lock, stages
from paddleship.execution.repro import StageStatus
from paddleship.execution.stages import Stage, StageKilled
from paddleship.execution.workspace import Workspace
from paddleship.orchestration import run_state
from paddleship.orchestration.summary import Row
from paddleship.reports.report import Report

Version = tuple[int, int] | None  # of a report


def require(values: params.Params, names: Iterable[str]) -> None:
    """Check before the first of these stages what this machine would refuse later. Raises ParamsError or Unavailable."""
    catalogue.require_known(values.optimize.candidates)
    if "optimize" in names:
        preflight.require_cores(values.optimize.threads)
        catalogue.chosen(values.optimize.candidates)
    if {"package", "accept"} & set(names):
        image.connect().close()


def run_each(
    wanted: Sequence[Stage], working_copy: Workspace, values: params.Params, environment: dict[str, str], *, on_row: Callable[[Row], None]
) -> PaddleshipError | None:
    """Run stages in order; `on_row` gets the result of each. Returns the error that ended it early, or None."""
    states: dict[str, State[Any]] = {}
    reports = working_copy.root / values.paths.reports
    for stage in wanted:
        errors: list[PaddleshipError] = []
        earlier: list[Version] = []
        needed = [states[name] for name in stage.needs if name in states]
        state = run_stage.with_options(name=stage.name, task_run_name=stage.name)(
            stage, working_copy, values, environment, errors, earlier, wait_for=needed, return_state=True
        )
        states[stage.name] = state
        failure = _error_of(state, errors)
        status = StageStatus.FAILED if failure else StageStatus(state.result())
        on_row(Row(stage.name, status, _report(reports, stage, but=earlier if failure else []), str(failure) if failure else ""))
        if failure is not None:
            return failure
    return None


def _retry(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """Retry a killed process; a failed gate or bad input would only fail again."""
    return isinstance(state.result(raise_on_failure=False), StageKilled)


@task(retries=2, retry_delay_seconds=1, retry_condition_fn=_retry, cache_policy=NO_CACHE, persist_result=False)
def run_stage(
    stage: Stage,
    working_copy: Workspace,
    values: params.Params,
    environment: dict[str, str],
    errors: list[PaddleshipError],
    earlier: list[Version],
) -> Any:
    """Run one DVC stage, or find it unchanged; an expected failure is a state, not a traceback.

    `errors` gets the error of each attempt, `earlier` the version of every report that an attempt found when it began to work.
    """
    log, reports = get_run_logger(), working_copy.root / values.paths.reports
    earlier.append(_version(reports, stage))
    try:
        stages.require_time(f"{stage.name} did not begin")
        force = stage.again or (stage.name == "package" and image.is_gone(working_copy.root / values.paths.image))
        if not force and stages.are_current(working_copy.root, stage):
            log.info("%s: unchanged", stage.name)
            _restore_name(stage, working_copy.root / values.paths.image)
            return StageStatus.UNCHANGED
        with measurement_lock.turn(stage.name, on_line=log.info):
            status = stages.run(working_copy.root, stage, environment=environment, on_line=log.info, force=force)
            earlier += [_version(reports, stage)] if status != StageStatus.RAN else []  # restored
            if status != StageStatus.RAN and stage.name == "package" and image.is_gone(working_copy.root / values.paths.image):
                status = stages.run(working_copy.root, stage, environment=environment, on_line=log.info, force=True)
        if status != StageStatus.RAN:
            _restore_name(stage, working_copy.root / values.paths.image)
        return status
    except StageKilled as error:
        errors.append(error)
        raise
    except PaddleshipError as error:
        errors.append(error)
        return run_state.failed(error)


def _restore_name(stage: Stage, receipt: Path) -> None:
    """Where `accept` passed earlier, see that the image's name still belongs to what it accepted. Raises Unavailable."""
    if stage.name == "accept" and (line := image.restore_name(receipt)):
        get_run_logger().warning(line)


def _report(folder: Path, stage: Stage, *, but: Collection[Version]) -> Report | None:
    """The report of the stage, unless it is one of these versions: a stage that failed may have left that of an earlier run."""
    version = _version(folder, stage)
    return Report.read(folder, stage.name) if version and version not in but else None


def _version(folder: Path, stage: Stage) -> Version:
    """The inode of a stage's report, and when that was written; not when it was started, because the clock may be set meanwhile."""
    try:
        about = (folder / f"{stage.name}.json").stat()
    except FileNotFoundError:
        return None
    return about.st_ino, about.st_mtime_ns


def _error_of(state: State[Any], errors: list[PaddleshipError]) -> PaddleshipError | None:
    if state.is_completed():
        return None
    return errors[-1] if errors else PaddleshipError(state.message or "the stage failed: its log above says why")
