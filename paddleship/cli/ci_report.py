"""`paddleship ci` for CI jobs: run the pipeline if params, code or data changed, and report in Markdown.

The exit code is that of the run, see paddleship/errors.py; also 0 if nothing changed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from paddleship.cli import earlier_page
from paddleship.cli.run_tables import benchmarks_differ, change, number, rows_differ
from paddleship.errors import PaddleshipError, Unavailable, without_credentials
from paddleship.execution import snapshots
from paddleship.orchestration.pending_changes import lines
from paddleship.pages import first_screen, run_page
from paddleship.reports import markdown
from paddleship.reports.figures import distinct
from paddleship.reports.order import STAGES
from paddleship.reports.report import Report
from paddleship.servers.local_state import Local
from paddleship.shipped.computing.files import write_text
from paddleship.statistics.estimates import Difference
from paddleship.system import disk
from paddleship.tracking import client, run_description, runs, spool
from paddleship.tracking.runs import Run

_PICTURE = "pictures/benchmark/latency.png"
_SPEEDUP = "benchmark/speedup"
_FIGURES = {
    "p50 ms": "benchmark/p50_ms",
    "p99 ms": "benchmark/p99_ms",
    "noise ratio": "benchmark/noise_ratio",
    "image MB": "package/image_bytes",
}
_MEASURED_HERE = ("p50 ms", "p99 ms")  # figures of one machine, which those of another one cannot be compared with


def skip(checkout: Path, report: Path) -> str:
    """Write the report of a job that runs nothing, and return its line."""
    message = "nothing changed since dvc.lock: params, code, data and installed versions are the same, so the pipeline did not run"
    if snapshots.has_results(checkout):
        message += "; no commit has this dvc.lock: commit it, so that jobs in other clones find the same"
    write_text(report, f"{message[0].upper()}{message[1:]}.\n")
    return message


def begin(report: Path) -> None:
    """Replace the report of an earlier job in the same workspace by one that is true if this job is killed."""
    with disk.full_is_unavailable("the job"):
        report.unlink(missing_ok=True)
        write_text(report, "**This job has not ended.** If it does not run any more, it was killed: see its log, and start it again.\n")


def fail(error: PaddleshipError, commit: str, report: Path) -> None:
    """Write the report of a job that ended with an error before or outside of its run, or leave the one of `begin` if the disk is full."""
    with suppress(OSError):
        earlier_page.remove(report.parent)
        write_text(report, _text([_failed(f"{error.outcome}: {error}", []), *_ended(error.exit_code, commit)]))


def write(local: Local, state: Any, changed: Mapping[str, Sequence[str]], report: Path, *, commit: str) -> None:
    """Write the report of a run of that commit which ended in this state of Prefect. Raises Unavailable if the disk is full."""
    reason = "" if state.is_completed() else f"{state.name}: {state.message}"
    try:
        text = _report(local, state, changed, report.parent, reason=reason)
    except Unavailable as trouble:  # of the report, not of the run
        text = _without_mlflow(local, state, changed, trouble, reason=reason)
    if not state.is_completed():
        from paddleship.orchestration import run_state  # imports Prefect

        text += _ended(run_state.exit_code(state), commit)
    with disk.full_is_unavailable("the report of the job"):
        write_text(report, _text(text))


def _failed(reason: str, reports: Sequence[Report]) -> str:
    """The first screen of a job that failed; the reason ends with the next step."""
    return first_screen.of_run(reports, failure=reason).markdown()


def _lines(changed: Mapping[str, Sequence[str]]) -> list[str]:
    return [markdown.text(line) for line in lines(changed)]


def _ended(exit_code: int, commit: str) -> list[str]:
    return ["", f"Exit code {exit_code}, commit `{commit}`."]


def _without_mlflow(local: Local, state: Any, changed: Mapping[str, Sequence[str]], trouble: Unavailable, *, reason: str) -> list[str]:
    """The report of a run from what waits on this machine to be sent, because MLflow does not answer."""
    reports = spool.of_flow_run(local.spool, str(state.state_details.flow_run_id))
    if reports:
        text = [run_description.markdown(reports, links={}, failure=reason or None)]
    else:
        text = [_failed(reason, []) if reason else "**The run passed.**"]
    return [
        *text,
        "",
        f"Its run in MLflow is not here: {markdown.text(str(trouble))}",
        "",
        *_lines(_concerned(changed, reports) if reason else changed),
    ]


def _concerned(changed: Mapping[str, Sequence[str]], reports: Sequence[Report]) -> dict[str, Sequence[str]]:
    """What changed in the stages that a failed run reached: up to the one that missed its gate, or that ended without a report."""
    reported, reached = {report.stage for report in reports}, dict[str, Sequence[str]]()
    for stage, names in changed.items():
        if stage in STAGES and stage not in reported:
            return reached | {stage: names} if all(report.verdict for report in reports) else reached
        reached[stage] = names
    return reached


def _report(local: Local, state: Any, changed: Mapping[str, Sequence[str]], folder: Path, *, reason: str) -> list[str]:
    """The report of a run that has ended, from what MLflow has of it; the picture goes into `folder`."""
    uri = local.tracking_uri()
    run = runs.of_flow_run(uri, str(state.state_details.flow_run_id))
    reports = runs.reports(uri, run) if run else []
    if reason:
        changed = _concerned(changed, reports)
    if run is None or not reports:
        return [_failed(reason, []) if reason else "MLflow has no reports of this run: see the log of the job", "", *_lines(changed)]
    text = [run_description.markdown(reports, links={}, failure=reason or None), *_against_champion(uri, run), *_lines(changed)]
    with tempfile.TemporaryDirectory() as scratch:
        folder.mkdir(parents=True, exist_ok=True)
        if picture := runs.download(uri, run, _PICTURE, Path(scratch)):
            (folder / picture.name).write_bytes(picture.read_bytes())
            text += ["", f"![latency of every candidate]({picture.name})"]
        if page := runs.download(uri, run, run_page.NAME, Path(scratch)):
            (folder / page.name).write_bytes(page.read_bytes())
            text += ["", f"[The whole report]({page.name})"]
    where = f" in MLflow at {without_credentials(uri)}" if uri.startswith("http") else ""
    return [*text, "", f"Run `{run.name}` of commit `{run.tags['git_commit']}`{where}."]


def _against_champion(uri: str, run: Run) -> list[str]:
    """This run and the champion side by side."""
    result = runs.champion(uri, run.model)
    if result is None:
        return ["There is no champion yet that this run could be compared with.", ""]
    version, champion = result
    rows = [f"| | this run | champion, version {version} | |", "|---|---|---|---|"]
    rows += [f"| {' | '.join(map(markdown.cell, cells))} |" for cells in compare(run, champion)]
    return [*rows, ""]


def compare(run: Run, champion: Run) -> list[tuple[str, str, str, str]]:
    """A row for each figure: its name, its values in this run and in the champion's, and what the difference means."""
    unlike, other_rows = benchmarks_differ(run, champion), rows_differ(run, champion)
    rows = [("winner", run.tags.get("winner", "–"), champion.tags.get("winner", "–"), "")]
    of_training = client.scores(run.metrics)
    for name, key in {**{key.removeprefix("train/"): key for key in of_training}, **_FIGURES}.items():
        own_value, champion_value = run.metrics.get(key), champion.metrics.get(key)
        if key.endswith("_bytes"):
            own_value, champion_value = (value and value / 1e6 for value in (own_value, champion_value))
        means = change(key, champion_value, own_value) if own_value is not None and champion_value is not None else ""
        if means and name in _MEASURED_HERE and unlike:
            means = unlike
        if means and key in of_training and other_rows:
            means = other_rows
        texts = (
            (number(own_value), number(champion_value))
            if own_value is None or champion_value is None
            else distinct(own_value, champion_value)
        )
        rows.append((name, *texts, means))
    rows.append(("speedup over eager, 95% interval", _interval(run), _interval(champion), _verdict(run, champion)))
    return rows


def _verdict(run: Run, champion: Run) -> str:
    """Whether the speedup over each one's own eager model differs by more than both intervals allow."""
    if _SPEEDUP not in run.metrics or _SPEEDUP not in champion.metrics:
        return ""
    if unlike := benchmarks_differ(run, champion):
        return f"{Difference.CANNOT_TELL}: {unlike}"
    if run.metrics[f"{_SPEEDUP}_low"] > champion.metrics[f"{_SPEEDUP}_high"]:
        return Difference.BETTER
    return Difference.WORSE if run.metrics[f"{_SPEEDUP}_high"] < champion.metrics[f"{_SPEEDUP}_low"] else Difference.CANNOT_TELL


def _interval(run: Run) -> str:
    if _SPEEDUP not in run.metrics:
        return "–"
    return f"{run.metrics[_SPEEDUP]:.2f}× ({run.metrics[f'{_SPEEDUP}_low']:.2f} to {run.metrics[f'{_SPEEDUP}_high']:.2f})"


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"
