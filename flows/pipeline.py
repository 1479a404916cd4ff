"""The flow `develop-to-deploy`: the order of the stages, where they run, and reports about them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

from prefect import State, flow, get_run_logger, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import TaskRun
from prefect.runtime import flow_run
from prefect.states import Completed

from flows import leftovers, outcome, quiet, stages, summary, unchanged, workspace
from flows.local import Local
from flows.repro import StageStatus
from flows.stages import Stage, StageKilled, Until
from flows.summary import Row
from flows.workspace import Workspace
from paddleship.config import catalogue, params, preflight
from paddleship.errors import BadInput, DataError, PaddleshipError
from paddleship.reports.report import Report
from tasks import image
from tasks.fingerprint import fingerprint
from tasks.tracking.run import Tracker, bury

Overrides = params.overrides(list(catalogue.kinds()))


@flow(name="develop-to-deploy", validate_parameters=True, log_prints=False)
def develop_to_deploy(
    overrides: Overrides | None = None,  # type: ignore[valid-type]
    params_file: str | None = None,
    until: Until = "accept",
    isolated: bool = True,
    commit: str | None = None,
    register_model: bool = True,
) -> State[Any]:
    """Take an eager model and its data to an accepted image: prepare, train, export, optimize, verify, benchmark, package, accept.

    Args:
        overrides: Values laid over params.yaml for this run; keys that are left out keep their values.
        params_file: A file laid over params.yaml, such as examples/linear/params.yaml.
        until: The last stage to run.
        isolated: Run in a separate git worktree, so that the checkout is not changed.
        commit: A commit, branch or tag to run in a separate worktree, fetched if needed; default: the checked-out commit.
        register_model: Register the accepted candidate in MLflow as challenger.
    """
    try:
        checkout = workspace.checkout_of(Path.cwd())
        overlay = _overlay(checkout, overrides, params_file)
        leftovers.sweep(checkout, on_line=get_run_logger().warning)
        origin = " with ".join(filter(None, (params_file, "the overrides of this run" if overrides is not None else "")))
        place = _place(checkout, overlay, origin=origin, isolated=isolated, until=until, commit=commit)
        try:
            return _run(place, until, register=register_model)
        finally:
            place.leave()
    except PaddleshipError as error:
        return outcome.failed(error)


def _run(place: Workspace, until: Until, *, register: bool) -> State[Any]:
    """Run the stages in this place and report to MLflow, Prefect and the terminal. Raises PaddleshipError if they cannot begin."""
    values, graph, checkout = place.params(), stages.graph(place.root, until=until), place.checkout
    fingerprint(values, place.root)
    _require_data(place, values, graph)
    local = Local.of(checkout)
    bury(local.spool, tracking_uri=local.tracking_uri())
    tags = {"mlflow.runName": str(flow_run.name), "git_commit": workspace.commit(place.root), "prefect_flow_run": str(flow_run.id)}
    tracker = Tracker.start(values, tracking_uri=local.tracking_uri(), artifact_root=local.artifact_root, spool=local.spool, tags=tags)
    rows: list[Row] = []
    failure: PaddleshipError | None = None
    try:
        failure = _run_stages(graph, place, values, tracker, rows, uri=local.tracking_uri())
        if failure is None:
            _conclude(place, values, tracker, rows, register=register and until == stages.LAST)
        _keep_experiment(graph, place, rows)
    except BaseException as error:
        tracker.stop(error)
        raise
    tracker.log_source(place.root)
    tracker.finish(failure, tags={"dvc_lock_sha256": stages.lock_sha256(place.root)})
    _publish(place, values, tracker, rows)
    summary.show(rows, place.root, values, local, links={"this run": tracker.url, "all runs": tracker.view_url})
    if tracker.undelivered:
        summary.say("MLflow did not get all of this run: start it, then run .venv/bin/paddleship deliver")
    if failure is not None:
        if place.isolated:
            summary.say(f"the run's folder is kept until the next run: {place.root}")
        return outcome.failed(failure)
    if not place.isolated and not tracker.undelivered:
        unchanged.note(place.root, local, until, links={"last run": tracker.url, "all runs": tracker.view_url})
    place.remove()
    changed = [row.stage for row in rows if row.status == StageStatus.RAN]
    return Completed(message=f"{', '.join(changed)} ran" if changed else "nothing changed")


def _overlay(checkout: Path, overrides: Any, params_file: str | None) -> dict[str, Any]:
    """The values laid over params.yaml: first the file, then the overrides. Raises ParamsError."""
    overlay = params.read(checkout / params_file) if params_file else {}
    if overrides is not None:
        overlay = params.merge(overlay, overrides.model_dump(exclude_unset=True, mode="json"))
    return overlay


def _place(checkout: Path, overlay: dict[str, Any], *, origin: str, isolated: bool, until: Until, commit: str | None) -> Workspace:
    """The checkout, or a worktree if the run must not change it. Raises ParamsError before anything starts."""
    if not isolated and not overlay and not commit:
        place = workspace.in_place(checkout)
        require(place.params(), until)
        return place
    known = workspace.commit(checkout, commit) if commit else "HEAD"
    require(workspace.overlaid(checkout, overlay, origin=origin or "params.yaml", commit=known), until)
    if not commit and (changed := workspace.uncommitted(checkout)):
        get_run_logger().warning("%d files with uncommitted changes are not part of this run: %s", len(changed), ", ".join(changed[:5]))
    return workspace.isolate(checkout, str(flow_run.id), overlay, known)


def require(values: params.Params, until: Until) -> None:
    """Check before training what `optimize` would refuse later. Raises ParamsError."""
    stage_names = get_args(Until)
    catalogue.require_known(values.optimize.candidates)
    if stage_names.index(until) >= stage_names.index("optimize"):
        preflight.require_cores(values.optimize.threads)
        catalogue.chosen(values.optimize.candidates)


def _require_data(place: Workspace, values: params.Params, graph: list[Stage]) -> None:
    """Raise DataError or BadInput before the first stage if a file is missing that no stage makes."""
    for stage, path in stages.missing(place.root, graph):
        if path != Path(values.data.raw):
            raise BadInput(f"{stage.name} needs {str(path)!r}, which does not exist: put it there, or correct the path in params.yaml")
        way = "does not exist: put the data there, correct the path, or name in data.fetch a script that makes it"
        if place.isolated and (place.checkout / path).exists():
            way = f"is in the checkout, but neither in git nor in DVC, so that this run does not have it: `dvc add {path}`, and commit"
        raise DataError(f"data.raw {values.data.raw!r} {way}")


def _run_stages(
    graph: list[Stage], place: Workspace, values: params.Params, tracker: Tracker, rows: list[Row], *, uri: str
) -> PaddleshipError | None:
    """Run the graph in order as Prefect tasks. Returns the error that ended it early, or None."""
    environment = {"PADDLESHIP_FLOW_RUN_ID": str(flow_run.id or ""), "MLFLOW_TRACKING_URI": uri}
    if place.isolated:
        environment["PADDLESHIP_EXPERIMENT"] = workspace.experiment(str(flow_run.id))
    if tracker.run_id:
        environment["MLFLOW_RUN_ID"] = tracker.run_id
    states: dict[str, State[Any]] = {}
    failure: PaddleshipError | None = None
    reports = place.root / values.paths.reports
    for stage in graph:
        if failure is not None:
            rows.append(Row(stage.name, StageStatus.NOT_RUN, None))
            continue
        started = datetime.now(UTC)
        errors: list[PaddleshipError] = []
        needed = [states[name] for name in stage.needs]
        state = run_stage.with_options(name=stage.name, task_run_name=stage.name)(
            stage, place, values, environment, errors, wait_for=needed, return_state=True
        )
        states[stage.name] = state
        failure = _error_of(state, errors)
        status = StageStatus.FAILED if failure else StageStatus(state.result())
        report = _report(reports, stage, since=started if failure else None)
        rows.append(Row(stage.name, status, report, str(failure) if failure else ""))
        if report:
            tracker.log_report(report, reports, cached=status in (StageStatus.UNCHANGED, StageStatus.RESTORED))
    return failure


def _retry(_task: Any, _run: TaskRun, state: State[Any]) -> bool:
    """Retry a killed process; a failed gate or bad input would only fail again."""
    return isinstance(state.result(raise_on_failure=False), StageKilled)


@task(retries=2, retry_delay_seconds=1, retry_condition_fn=_retry, cache_policy=NO_CACHE, persist_result=False)
def run_stage(stage: Stage, place: Workspace, values: params.Params, environment: dict[str, str], errors: list[PaddleshipError]) -> Any:
    """Run one DVC stage, or find it unchanged; an expected failure is a state, not a traceback."""
    log = get_run_logger()
    try:
        force = stage.name == "package" and image.is_gone(place.root / values.paths.image)
        if not force and stages.are_current(place.root, stage):
            log.info("%s: unchanged", stage.name)
            return StageStatus.UNCHANGED
        with quiet.turn(stage.name, on_line=log.info):
            status = stages.run(place.root, stage, environment=environment, on_line=log.info, force=force)
            if status != StageStatus.RAN and stage.name == "package" and image.is_gone(place.root / values.paths.image):
                status = stages.run(place.root, stage, environment=environment, on_line=log.info, force=True)
        return status
    except StageKilled as error:
        errors.append(error)
        raise
    except PaddleshipError as error:
        errors.append(error)
        return outcome.failed(error)


def _conclude(place: Workspace, values: params.Params, tracker: Tracker, rows: list[Row], *, register: bool) -> None:
    """After a successful run, register the winner if it is to be, and push the data to the remote."""
    log = get_run_logger()
    if register:
        candidate = values.paths.candidates + "/" + _winner(rows)
        if version := tracker.register(place.root / candidate, place.root / values.paths.release):
            log.info("registered: %s", version)
    if any(row.status == StageStatus.RAN for row in rows):
        stages.push(place.root, on_line=log.warning)


def _keep_experiment(graph: list[Stage], place: Workspace, rows: list[Row]) -> None:
    """Save the worktree's passed stages as an experiment, because a later run may ship a candidate of a failed run."""
    passed = {row.stage for row in rows if row.status in (StageStatus.RAN, StageStatus.UNCHANGED, StageStatus.RESTORED)}
    if place.isolated and any(row.status == StageStatus.RAN for row in rows):
        addresses = [stage.address for stage in graph if stage.name in passed]
        stages.save_experiment(
            place.root, place.checkout, workspace.experiment(str(flow_run.id)), addresses, on_line=get_run_logger().warning
        )


def _winner(rows: list[Row]) -> str:
    return next(str(row.report.facts["winner"]) for row in rows if row.stage == "benchmark" and row.report)


def _report(folder: Path, stage: Stage, *, since: datetime | None) -> Report | None:
    """The report of the stage; for a stage that failed, only one written `since` then, not one of an earlier run."""
    if not (folder / f"{stage.name}.json").exists():
        return None
    report = Report.read(folder, stage.name)
    return report if since is None or (report.started_at and report.started_at >= since) else None


def _error_of(state: State[Any], errors: list[PaddleshipError]) -> PaddleshipError | None:
    if state.is_completed():
        return None
    return errors[-1] if errors else PaddleshipError(state.message or "the stage failed: its log above says why")


def _publish(place: Workspace, values: params.Params, tracker: Tracker, rows: list[Row]) -> None:
    """Artifacts of the flow run for Prefect's page."""
    create_markdown_artifact(key="summary", markdown=summary.markdown(rows), description="Stages, verdicts and headline numbers")
    if found := summary.findings(rows):
        create_table_artifact(key="findings", table=found, description="Errors and warnings of all stages")
    if tracker.url:
        create_link_artifact(
            key="mlflow-run", link=tracker.url, link_text="MLflow run", description="Metrics, candidates and pictures in MLflow"
        )
        create_link_artifact(
            key="mlflow-view", link=str(tracker.view_url), link_text="Which candidate is better", description="All runs compared in MLflow"
        )
    picture = place.root / values.paths.reports / "benchmark" / "latency.png"
    if picture.exists() and any(row.stage == "benchmark" and row.report for row in rows):
        data = base64.b64encode(picture.read_bytes()).decode()
        create_markdown_artifact(
            key="latency", markdown=f"![latency](data:image/png;base64,{data})", description="Latency of every candidate"
        )
    release = place.root / values.paths.release
    if release.exists() and rows[-1].stage == stages.LAST and rows[-1].report:
        text = f"```json\n{release.read_text(encoding='utf-8')}\n```"
        create_markdown_artifact(key="release", markdown=text, description="Where the image comes from")
