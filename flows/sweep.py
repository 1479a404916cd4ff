"""The flow `sweep`: run variants of the params, several at the same time, compare what they measured, and choose one."""

from __future__ import annotations

import os
import queue
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prefect import State, flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run
from prefect.states import Completed

from paddleship import errors
from paddleship.config import optional_params, workspace_paths
from paddleship.config.sections.sweep import Sweep
from paddleship.errors import GateFailed, PaddleshipError
from paddleship.execution import cleanup, stages, workspace
from paddleship.orchestration import (
    artifact,
    crashed_runs,
    pending_changes,
    run_names,
    run_state,
    stage_tasks,
    summary,
    sweep_params,
    terminal,
    variants,
)
from paddleship.orchestration.sweep_params import SweepParams
from paddleship.orchestration.variants import Deployment, Processes, Runner
from paddleship.pages import variants_page
from paddleship.reports import figures
from paddleship.reports.report import Report
from paddleship.servers.local_state import Local
from paddleship.shipped.computing.files import write_text
from paddleship.sweep import choice, space, sweep_page
from paddleship.sweep.choice import Choice
from paddleship.sweep.journal import Journal
from paddleship.sweep.journal import name as name_of
from paddleship.sweep.study import Study
from paddleship.sweep.variant import DONE, Ended, Variant
from paddleship.system import host
from paddleship.system.state_folder import FOLDER
from paddleship.tracking.run import Tracker, close_dead_runs

Settings = optional_params.optional(Sweep)
_POLL_S = 0.5
_REPORT = "report"  # folder of the page and its picture


@flow(name="sweep", validate_parameters=True, log_prints=False)
def sweep(
    settings: Settings | None = None,  # type: ignore[valid-type]
    params_file: str | None = None,
    commit: str | None = None,
    deployment: str | None = None,
) -> State[Any]:
    """Run variants of the params, each to a benchmarked candidate or further, and choose one by score, latency and size.

    The same sweep, started again, resumes.

    Args:
        settings: Which variants, how many, and how to choose; keys that are left out are those of the section sweep of params.yaml.
        params_file: A file laid over params.yaml for all variants, such as examples/linear/params.yaml.
        commit: A commit, branch or tag that all variants run; default: the checked-out commit.
        deployment: The deployment that runs the variants, such as develop-to-deploy/local; default: processes of this machine.
    """
    run_names.set_name(f"sweep of {params_file or 'params.yaml'}")
    try:
        checkout = workspace.checkout_of(Path.cwd())
        crashed_runs.hold(Local.of(checkout))
        overrides: dict[str, Any] = settings.model_dump(exclude_unset=True, mode="json") if settings is not None else {}
        return _sweep(checkout, sweep_params.read(checkout, params_file=params_file, settings=overrides, commit=commit), deployment)
    except PaddleshipError as error:
        return run_state.failed(error)


def _sweep(checkout: Path, params: SweepParams, deployment: str | None) -> State[Any]:
    values, commit = params.values, params.commit
    workspace_paths.require_inside(values, checkout)
    stage_tasks.require(values, stages.up_to(values.sweep.until))
    if changed := workspace.uncommitted(checkout):
        get_run_logger().warning("%d files with uncommitted changes are not part of this sweep: %s", len(changed), ", ".join(changed[:5]))
    version = pending_changes.version_of(checkout, str(flow_run.id), commit=commit, overlay=params.overlay, until=values.sweep.until)
    name = name_of(values, commit, version)
    run_names.set_name(f"sweep {name} over {', '.join(path.rpartition('.')[2] for path in values.sweep.space)}")
    journal = Journal(checkout / FOLDER / "sweeps" / name)
    with journal.lock():
        local = Local.of(checkout)
        close_dead_runs(local.spool, tracking_uri=local.tracking_uri())
        tags = {"mlflow.runName": name, "git_commit": commit, "prefect_flow_run": str(flow_run.id), "sweep": name}
        tags["checkout"] = local.identity
        tracker = Tracker.start(values, tracking_uri=local.tracking_uri(), artifact_root=local.artifact_root, spool=local.spool, tags=tags)
        shared = variants.Sweep(name, journal.folder, checkout, values, params.overlay, commit, local.tracking_uri(), tracker.run_id)
        runner: Runner = Deployment(shared, deployment) if deployment else Processes(shared)
        try:
            all_variants = _run_all(shared, journal, runner)
            return _conclude(shared, all_variants, tracker, runner)
        except BaseException as error:
            tracker.stop(error)
            raise


def _run_all(shared: variants.Sweep, journal: Journal, runner: Runner) -> list[Variant]:
    """Run every variant that has not ended yet, `parallel` at the same time. Returns all of them."""
    settings, say = shared.values.sweep, get_run_logger().info
    known, again, study = _resume(shared, journal)
    total = min(settings.trials, space.size(settings) or settings.trials)
    if (combined := space.size(settings) or 0) > total:
        say("sweep %s: %d of %d combinations (sweep.trials)", shared.name, total, combined)
    done: queue.Queue[tuple[Variant, Ended]] = queue.Queue()
    running = 0
    try:
        while True:
            while running < settings.parallel and (next_one := again.pop(0) if again else _next(study, known)):
                known[next_one.number] = next_one
                journal.write(next_one)
                _start(next_one, runner, journal, known, done)
                running += 1
            if not running:
                return [known[number] for number in sorted(known)]
            ended, end = _wait(done)
            running -= 1
            known[ended.number] = ended = known[ended.number].model_copy(update={"ended": end})
            journal.write(ended)
            study.tell(ended.values, _objectives(ended))
            count = sum(one.ended is not None for one in known.values())
            say("%d of %d: variant %d (%s): %s", count, total, ended.number, ended.label, _description(end))
    except BaseException:
        runner.cancel()
        raise


def _resume(shared: variants.Sweep, journal: Journal) -> tuple[dict[int, Variant], list[Variant], Study]:
    """The variants of an earlier command that ended for good, those to run again, and the study that knows both."""
    settings = shared.values.sweep
    study = Study(settings, seed=shared.values.seed)
    known: dict[int, Variant] = {}
    again: list[Variant] = []
    for one in journal.variants():
        study.know(one.values)
        if one.ended is not None and one.ended.is_final:
            study.tell(one.values, _objectives(one))
            known[one.number] = one
            shared.adopt(one)
        else:
            again.append(one.model_copy(update={"ended": None}))
    if known:
        get_run_logger().info("sweep %s goes on: %d variants are done, %d run again", shared.name, len(known), len(again))
    return known, again, study


def _next(study: Study, known: dict[int, Variant]) -> Variant | None:
    point = study.next()
    return Variant(number=max(known, default=0) + 1, values=point) if point is not None else None


def _start(one: Variant, runner: Runner, journal: Journal, known: dict[int, Variant], done: queue.Queue[tuple[Variant, Ended]]) -> None:
    """Run a variant as a task run of its name; its end is put into the queue."""

    def began(number_of_flow_run: str) -> None:
        known[one.number] = one.model_copy(update={"flow_run": number_of_flow_run})
        journal.write(known[one.number])

    @task(name="variant", task_run_name=f"{one.number}: {one.label}".replace("{", "(").replace("}", ")"), cache_policy=NO_CACHE)
    def run() -> Any:
        log = get_run_logger()
        try:
            end = runner.run(one, say=lambda line: log.info("variant %d (%s): %s", one.number, one.label, line), began=began)
        except PaddleshipError as error:
            end = Ended(outcome=error.outcome, reason=str(error))
        except Exception as error:
            done.put((one, Ended(outcome=PaddleshipError.outcome, reason=f"{type(error).__name__}: {error}")))
            raise
        done.put((one, end))
        return Completed(message=_description(end)) if end.outcome == DONE else run_state.failed(errors.of_outcome(end.outcome)(end.reason))

    run.submit()


def _wait(done: queue.Queue[tuple[Variant, Ended]]) -> tuple[Variant, Ended]:
    """The next end; a signal can interrupt the wait."""
    while True:
        try:
            return done.get(timeout=_POLL_S)
        except queue.Empty:
            continue


def _objectives(one: Variant) -> tuple[float, float, float] | None:
    figures = one.figures
    return (figures.score.value if figures.score else 0.0, figures.p50_ms.value, float(figures.size_bytes)) if figures else None


def _conclude(shared: variants.Sweep, all_variants: list[Variant], tracker: Tracker, runner: Runner) -> State[Any]:
    """Choose, register the chosen variant if it was accepted, and report."""
    missed = {one.number: one.ended.missed for one in all_variants if one.ended and one.ended.missed}
    chosen = choice.choose({one.number: one.figures for one in all_variants if one.figures}, shared.values.sweep, missed=missed)
    best = next((one for one in all_variants if one.number == chosen.best), None)
    failure = _failure(all_variants, chosen)
    if best is not None and shared.values.sweep.until == "accept":
        failure = _register(best, runner)
    cleanup.sweep(shared.checkout, on_line=get_run_logger().warning)
    report = sweep_page.report(shared.name, all_variants, chosen, shared.folder / _REPORT)
    report.started_at, report.host = flow_run.scheduled_start_time, host.fingerprint()
    report.write(shared.folder / _REPORT)
    tracker.log_report(report, shared.folder / _REPORT, cached=False)
    page = shared.folder / _REPORT / variants_page.NAME
    write_text(page, variants_page.of(shared.name, all_variants, chosen))
    tracker.log_page(page)
    view = tracker.share_sweep(shared.name, title=f"Chosen: {best.label}" if best else "No variant can be chosen")
    _publish(report, shared.folder / _REPORT, links={"Which variant is better": view, "This sweep in MLflow": tracker.url})
    tracker.finish(failure)
    _show(shared, all_variants, chosen, report, links={"this sweep": tracker.url, "its variants": view})
    return run_state.failed(failure) if failure is not None else Completed(message=report.headline)


def _failure(all_variants: Sequence[Variant], chosen: Choice) -> PaddleshipError | None:
    """The error of a sweep without a best variant: if all failed, that of most of them, with how near they came to a gate."""
    if chosen.best is not None:
        return None
    if any(one.figures for one in all_variants):
        return GateFailed(f"sweep: {chosen.reason}")
    ends = [one.ended for one in all_variants if one.ended]
    most = Counter(end.outcome for end in ends).most_common(1)[0][0]
    if most == GateFailed.outcome and any(end.missed for end in ends):
        return GateFailed(f"none of {len(all_variants)} variants is done; {most}: {chosen.check.advice}")
    reason = next(end.reason for end in ends if end.outcome == most)
    return errors.of_outcome(most)(f"none of {len(all_variants)} variants is done; {most}: {reason or 'start the same sweep again'}")


def _register(best: Variant, runner: Runner) -> PaddleshipError | None:
    """Run the chosen variant once more, which restores all of its stages and registers what was accepted."""
    log = get_run_logger()

    @task(name="register", task_run_name="register", cache_policy=NO_CACHE)
    def run() -> Any:
        log.info("registering variant %d (%s)", best.number, best.label)
        end = runner.run(best, say=lambda text: log.info("registration: %s", text), began=lambda _: None, register=True)
        return [end] if end.outcome == DONE else run_state.failed(errors.of_outcome(end.outcome)(end.reason))

    state = run(return_state=True)
    return None if state.is_completed() else errors.of_outcome(state.name)(f"register: {state.message}")


def _publish(report: Report, folder: Path, *, links: Mapping[str, str | None]) -> None:
    """The artifact of the flow run: the table of variants, the choice, its pictures, and where to see more."""
    text = (folder / report.facts["page"]).read_text(encoding="utf-8")
    pictures = [artifact.picture(folder / name) for name in report.pictures]
    artifact.publish("sweep", text, *pictures, artifact.links(links), description=report.headline)


def _show(
    shared: variants.Sweep, all_variants: Sequence[Variant], chosen: Choice, report: Report, *, links: Mapping[str, str | None]
) -> None:
    """Print the table of variants, the choice, and where to see more."""
    print()
    terminal.show(_table(all_variants, chosen))
    print(flush=True)
    folder = (shared.folder / _REPORT).relative_to(shared.checkout)
    summary.say(
        report.headline, *sweep_page.warnings(all_variants), *sweep_page.notes(all_variants), "", f"page     {folder / variants_page.NAME}"
    )
    summary.say(*(f"picture  {folder / name}" for name in report.pictures), *(f"{name} {url}" for name, url in links.items() if url))
    best = next((one for one in all_variants if one.number == chosen.best), None)
    if best is not None and shared.values.sweep.until != "accept":
        file = os.path.relpath(shared.write_overlay(best), shared.checkout)
        command = shlex.join([".venv/bin/paddleship", "run", "--params", file, "--commit", shared.commit[:12]])
        summary.say("", "next, the chosen variant as an accepted image:", f"  {command}")


def _table(all_variants: Sequence[Variant], chosen: Choice) -> Any:
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, header_style="bold", pad_edge=False)
    for name in sweep_page.COLUMNS:
        made.add_column(name, overflow="fold")
    styles = {one.number: "green" if one.number == chosen.best else "red" if one.figures is None else None for one in all_variants}
    for row in sweep_page.cells(all_variants, chosen):
        made.add_row(*map(Text, row), style=styles[int(row[1])])
    return made


def _description(end: Ended) -> str:
    """How a variant ended, in one line."""
    if end.figures is None:
        return f"{end.outcome}: {end.reason}"
    score = f"{end.figures.score_name} {figures.share(end.figures.score.value)}, " if end.figures.score else ""
    return f"{end.outcome}, {score}p50 {end.figures.p50_ms.value:.3g} ms"
