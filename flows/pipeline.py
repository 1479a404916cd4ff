"""The flow `develop-to-deploy`: the order of the stages, where they run, and reports about them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import State, flow, get_run_logger
from prefect.runtime import flow_run
from prefect.states import Completed
from pydantic import PositiveInt

from paddleship.config import catalogue, loading, optional_params, params, workspace_paths
from paddleship.errors import BadInput, DataError, PaddleshipError
from paddleship.execution import cleanup, dvc_process, snapshots, stages, workspace
from paddleship.execution.repro import StageStatus
from paddleship.execution.stages import Stage, Until
from paddleship.execution.workspace import Workspace
from paddleship.orchestration import artifact, crashed_runs, run_names, run_state, stage_groups, stage_tasks, summary, up_to_date
from paddleship.orchestration.summary import Row
from paddleship.pages import first_screen, run_page
from paddleship.servers.local_state import Local
from paddleship.shipped.computing.files import write_text
from paddleship.stage.fingerprint import fingerprint
from paddleship.system import disk
from paddleship.system.deadline import Deadline
from paddleship.tracking.run import Tracker, close_dead_runs

Overrides = optional_params.overrides(list(catalogue.kinds()))


@flow(name="develop-to-deploy", validate_parameters=True, log_prints=False)
def develop_to_deploy(
    overrides: Overrides | None = None,  # type: ignore[valid-type]
    params_file: str | None = None,
    until: Until = "accept",
    isolated: bool = True,
    commit: str | None = None,
    register_model: bool = True,
    pools: dict[str, str] | None = None,
    again: list[Until] | None = None,
    timeout_s: PositiveInt | None = None,
    trigger: str | None = None,
) -> State[Any]:
    """Take an eager model and its data to an accepted image: prepare, train, export, optimize, verify, benchmark, package, accept.

    Args:
        overrides: Values laid over params.yaml for this run; keys that are left out keep their values.
        params_file: A file laid over params.yaml, such as examples/linear/params.yaml.
        until: The last stage to run.
        isolated: Run in a separate git worktree, so that the checkout is not changed.
        commit: A commit, branch or tag to run in a separate worktree, fetched if needed; default: the checked-out commit.
        register_model: Register the accepted candidate in MLflow as challenger.
        pools: Work pools of stages, such as {"train": "gpu", "benchmark": "target"}; the other stages run where this run runs.
        again: Stages to run although nothing changed, such as ["benchmark"] after other processes disturbed it.
        timeout_s: Seconds after which the run ends as failed; what is finished by then is kept. Default: no limit.
        trigger: Why this run was started; MLflow shows it as the tag trigger.
    """
    run_names.set_name(f"{params_file or 'params.yaml'} until {until}")  # until the params are read
    try:
        again = again or []
        working_copy, remote_pools = _begin(overrides, params_file, until, again, pools or {}, isolated=isolated, commit=commit)
        try:
            with Deadline(timeout_s).binding() if timeout_s else nullcontext():
                return _run(working_copy, until, remote_pools, again, register=register_model, trigger=trigger)
        finally:
            _release(working_copy, remote_pools)
    except PaddleshipError as error:
        return run_state.failed(error)


@disk.full_is_unavailable("the run")
def _begin(
    overrides: Any,
    params_file: str | None,
    until: Until,
    again: Collection[str],
    pools: Mapping[str, str],
    *,
    isolated: bool,
    commit: str | None,
) -> tuple[Workspace, dict[str, str]]:
    """The working copy of the run, and the pools of the stages that other workers run. Raises PaddleshipError before anything starts."""
    checkout = workspace.checkout_of(Path.cwd())
    overlay = _overlay(checkout, overrides, params_file)
    crashed_runs.hold(Local.of(checkout))
    cleanup.sweep(checkout, on_line=get_run_logger().warning)
    origin = " with ".join(filter(None, (params_file, "the overrides of this run" if overrides is not None else "")))
    if beyond := sorted(set(again) - set(stages.up_to(until))):
        raise BadInput(f"again names {beyond[0]!r}, and this run ends with {until!r}: leave it out, or run until a later stage")
    remote_pools = stage_groups.remote_pools(pools, until=until, checkout=checkout)
    local_stages = [name for name in stages.up_to(until) if name not in remote_pools]
    return _working_copy_of(
        checkout, overlay, origin=origin, isolated=isolated or bool(remote_pools), names=local_stages, commit=commit
    ), remote_pools


@disk.full_is_unavailable("the run")
def _release(working_copy: Workspace, remote_pools: Mapping[str, str]) -> None:
    """Release the worktree of the run, and delete the git refs by which other pools received its stages."""
    if remote_pools:
        snapshots.forget(working_copy.checkout, str(flow_run.id))
    working_copy.release()


@disk.full_is_unavailable("the run")
def _run(
    working_copy: Workspace, until: Until, pools: Mapping[str, str], again: Collection[str], *, register: bool, trigger: str | None
) -> State[Any]:
    """Run the stages in this working copy and report to MLflow, Prefect and the terminal. Raises PaddleshipError if they cannot begin."""
    dvc_process.get_ready(working_copy.root)
    values, checkout = working_copy.params(), working_copy.checkout
    graph = [replace(stage, again=stage.name in again) for stage in stages.graph(working_copy.root, until=until)]
    fingerprint(values, working_copy.root)
    _require_data(working_copy, values, graph)
    local = Local.of(checkout)
    close_dead_runs(local.spool, tracking_uri=local.tracking_uri())
    tags = {
        "mlflow.runName": run_names.set_name(run_names.of_pipeline(values, working_copy.root, local.state)),
        "git_commit": workspace.commit(working_copy.root),
        "prefect_flow_run": str(flow_run.id),
    }
    tags["checkout"] = local.identity
    tags |= {"dvc_experiment": workspace.experiment(str(flow_run.id))} if working_copy.isolated else {}
    tags |= {"trigger": trigger} if trigger else {}
    tags |= {"started_by_flow_run": str(starter)} if (starter := flow_run.parent_flow_run_id) else {}
    tracker = Tracker.start(values, tracking_uri=local.tracking_uri(), artifact_root=local.artifact_root, spool=local.spool, tags=tags)
    try:
        rows, failure = _run_stages(graph, working_copy, values, tracker, uri=local.tracking_uri(), pools=pools)
        if failure is None:
            _conclude(working_copy, values, tracker, rows, graph, register=register and until == stages.LAST)
        _keep_experiment(working_copy, rows)
        page = _write_page(working_copy, values, rows, name=tags["mlflow.runName"], params=tracker.params, failure=failure)
        tracker.log_page(page)
    except BaseException as error:
        tracker.stop(error)
        raise
    tracker.log_source(working_copy.root, values.code)
    ran_on = {"ran_on": hosts} if (hosts := summary.hosts(rows)) else {}
    tracker.finish(failure, tags={"dvc_lock_sha256": stages.lock_sha256(working_copy.root), **ran_on})
    _publish(working_copy, values, tracker, rows)
    report = tracker.page_address(page.name) if working_copy.isolated else str(page)
    summary.show(rows, working_copy.root, values, local, links={"report": report, "this run": tracker.url, "all runs": tracker.view_url})
    if tracker.undelivered:
        summary.say(f"MLflow did not get all of this run: {tracker.trouble}")
    if failure is not None:
        if working_copy.isolated:
            summary.say(f"the run's folder is kept until the next run: {working_copy.root}")
        return run_state.failed(failure)
    if not working_copy.isolated and not tracker.undelivered:
        up_to_date.note(working_copy.root, local, until, registered=register, links={"last run": tracker.url, "all runs": tracker.view_url})
    working_copy.remove()
    changed = [row.stage for row in rows if row.status == StageStatus.RAN]
    return Completed(message=f"{', '.join(changed)} ran" if changed else "nothing changed")


def _overlay(checkout: Path, overrides: Any, params_file: str | None) -> dict[str, Any]:
    """The values laid over params.yaml: first the file, then the overrides. Raises ParamsError."""
    overlay = loading.read(checkout / params_file) if params_file else {}
    if overrides is not None:
        overlay = loading.merge(overlay, overrides.model_dump(exclude_unset=True, mode="json"))
    return overlay


def _working_copy_of(
    checkout: Path, overlay: dict[str, Any], *, origin: str, isolated: bool, names: list[str], commit: str | None
) -> Workspace:
    """The checkout, or a worktree if the run must not change it. Raises ParamsError before anything starts."""
    if not isolated and not overlay and not commit:
        working_copy = workspace.in_place(checkout)
        _require(working_copy.params(), names, checkout)
        return working_copy
    known = workspace.commit(checkout, commit) if commit else "HEAD"
    _require(workspace.overlaid(checkout, overlay, origin=origin or "params.yaml", commit=known), names, checkout)
    if not commit and (changed := workspace.uncommitted(checkout)):
        get_run_logger().warning("%d files with uncommitted changes are not part of this run: %s", len(changed), ", ".join(changed[:5]))
    return workspace.isolate(checkout, str(flow_run.id), overlay, known)


def _require(values: params.Params, names: Iterable[str], checkout: Path) -> None:
    """Check before anything starts what a stage would refuse later. Raises ParamsError."""
    workspace_paths.require_inside(values, checkout)
    stage_tasks.require(values, names)


def _require_data(working_copy: Workspace, values: params.Params, graph: list[Stage]) -> None:
    """Raise DataError or BadInput before the first stage if a file is missing that no stage makes."""
    for stage, path in stages.missing(working_copy.root, graph):
        if path != Path(values.data.raw):
            key = "code.watch " if path == Path(values.code.watch) else ""
            raise BadInput(f"{stage.name} needs {key}{str(path)!r}, which does not exist: put it there, or correct the path in the params")
        where = "" if path.is_absolute() else " in the checkout"
        way = f"does not exist{where}: put the data there, give another path (elsewhere: an absolute one), or name in data.fetch a script "
        way += "that makes it"
        if working_copy.isolated and (working_copy.checkout / path).exists():
            way = f"is in the checkout, but neither in git nor in DVC, so that this run does not have it: `dvc add {path}`, and commit"
        raise DataError(f"data.raw {values.data.raw!r} {way}")


@disk.full_is_unavailable("the run")
def _run_stages(
    graph: list[Stage],
    working_copy: Workspace,
    values: params.Params,
    tracker: Tracker,
    *,
    uri: str,
    pools: Mapping[str, str],
) -> tuple[list[Row], PaddleshipError | None]:
    """Run the graph in order, here and in the pools. Returns a row for each stage, and the error that ended it early, or None."""
    environment = {"PADDLESHIP_FLOW_RUN_ID": str(flow_run.id or ""), "MLFLOW_TRACKING_URI": uri}
    if working_copy.isolated:
        environment["PADDLESHIP_EXPERIMENT"] = workspace.experiment(str(flow_run.id))
    if tracker.run_id:
        environment["MLFLOW_RUN_ID"] = tracker.run_id
    reports = working_copy.root / values.paths.reports
    rows: list[Row] = []

    def note(row: Row) -> None:
        rows.append(row)
        if row.report:
            tracker.log_report(row.report, reports, cached=row.status in (StageStatus.UNCHANGED, StageStatus.RESTORED))

    remote_stages = [stage for stage in graph if stage.name in pools]
    for leg in stage_groups.split(graph, pools):
        if leg.pool is not None:
            failure = stage_groups.run(leg, working_copy, values, environment, apart_from=remote_stages, on_row=note)
        else:
            if remote_stages:
                stages.fetch(working_copy.root, stages.inputs(working_copy.root, leg.stages))
            failure = stage_tasks.run_each(leg.stages, working_copy, values, environment, on_row=note)
        if failure is not None:
            return [*rows, *(Row(stage.name, StageStatus.NOT_RUN, None) for stage in graph[len(rows) :])], failure
    return rows, None


@disk.full_is_unavailable("the run")
def _conclude(
    working_copy: Workspace, values: params.Params, tracker: Tracker, rows: list[Row], graph: list[Stage], *, register: bool
) -> None:
    """After a successful run, register the winner if requested, and push the data to the remote."""
    log = get_run_logger()
    sent = [row for row in rows if row.where]
    if register:
        candidate = values.paths.candidates + "/" + _winner(rows)
        if sent:
            stages.fetch(working_copy.root, [candidate, values.paths.release])
        if version := tracker.register(working_copy.root / candidate, working_copy.root / values.paths.release):
            log.info("registered: %s", version)
    unpushed = Local.of(working_copy.checkout).unpushed
    if any(row.status == StageStatus.RAN for row in rows if not row.where):
        unpushed.touch()
    if unpushed.exists():
        local_stages = [stage.address for stage in graph if stage.name not in {row.stage for row in sent}]
        if stages.push(working_copy.root, on_line=log.warning, only=local_stages if sent else ()):
            unpushed.unlink(missing_ok=True)


@disk.full_is_unavailable("the run")
def _keep_experiment(working_copy: Workspace, rows: list[Row]) -> None:
    """Save the worktree's params and lock as an experiment, because a later run may ship a candidate of a failed run.

    If stages ran elsewhere, the git remote gets it too, because other clones have parts of the run.
    """
    if not working_copy.isolated or not any(row.status == StageStatus.RAN for row in rows):
        return
    name = workspace.experiment(str(flow_run.id))
    try:
        snapshots.keep(working_copy.root, name)
        if any(row.where for row in rows):
            snapshots.share(working_copy.checkout, workspace.commit(working_copy.root), name)
    except PaddleshipError as error:
        get_run_logger().warning("the DVC experiment of this run is not kept, or not in the git remote (%s)", error)


@disk.full_is_unavailable("the run")
def _write_page(
    working_copy: Workspace,
    values: params.Params,
    rows: list[Row],
    *,
    name: str,
    params: Mapping[str, str],
    failure: PaddleshipError | None,
) -> Path:
    """Write the page of the run beside its reports, and return its path."""
    folder = working_copy.root / values.paths.reports
    reports = [row.report for row in rows if row.report]
    write_text(folder / run_page.NAME, run_page.of(name, reports, folder, params=params, failure=str(failure) if failure else None))
    return folder / run_page.NAME


def _winner(rows: list[Row]) -> str:
    return next(str(row.report.facts["winner"]) for row in rows if row.stage == "benchmark" and row.report)


def _publish(working_copy: Workspace, values: params.Params, tracker: Tracker, rows: list[Row]) -> None:
    """The artifact of the flow run: the answer, the stages, findings, latency of every candidate, and where to see more."""
    picture = working_copy.root / values.paths.reports / "benchmark" / "latency.png"
    measured = picture.exists() and any(row.stage == "benchmark" and row.report for row in rows)
    failed = next((row.reason for row in rows if row.reason), None)
    screen = first_screen.of_run([row.report for row in rows if row.report], failure=failed)
    artifact.publish(
        "summary",
        screen.markdown(),
        artifact.links({"The report": tracker.page_address(run_page.NAME)}),
        summary.markdown(rows),
        summary.findings(rows),
        artifact.picture(picture) if measured else "",
        artifact.links({"Which run is better": tracker.view_url, "This run in MLflow": tracker.url}),
        description=screen.mark,
    )
