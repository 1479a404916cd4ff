"""`paddleship ci` for CI jobs: run the pipeline if params, code or data changed, and report in Markdown.

The exit code is that of the run, see paddleship/errors.py; also 0 if nothing changed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from paddleship.cli import earlier_page, run_comparison
from paddleship.cli.run_pair import RunPair
from paddleship.cli.run_tables import change
from paddleship.errors import PaddleshipError, Unavailable, without_credentials
from paddleship.execution import snapshots
from paddleship.orchestration.pending_changes import lines
from paddleship.pages import first_screen, run_page
from paddleship.reports import figures, markdown, units
from paddleship.reports.order import STAGES
from paddleship.reports.report import Report
from paddleship.servers.local_state import Local
from paddleship.shipped.computing.files import write_text
from paddleship.statistics.estimates import Difference
from paddleship.sweep import choice
from paddleship.sweep.objectives import score_difference
from paddleship.system import disk
from paddleship.tracking import client, run_description, runs, spool
from paddleship.tracking.runs import Run

_PICTURE = "pictures/benchmark/latency.png"
_SPEEDUP, _P50 = "benchmark/speedup", "benchmark/p50_ms"
_FIGURES = {
    "p50": (_P50, units.durations),
    "p99": ("benchmark/p99_ms", units.durations),
    "noise ratio": ("benchmark/noise_ratio", units.threes),
    "image": ("package/image_bytes", units.sizes),
}
_LATENCIES = (_P50, "benchmark/p99_ms", _SPEEDUP)


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
    text = [run_description.markdown(reports, links={}, failure=reason or None), *_against_champion(uri, run, reports), *_lines(changed)]
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


def _against_champion(uri: str, run: Run, reports: Sequence[Report]) -> list[str]:
    """Which of this run and the champion is better, as `paddleship runs compare` answers it, and both side by side."""
    result = runs.champion(uri, run.model)
    if result is None:
        return ["There is no champion yet that this run could be compared with.", ""]
    version, champion = result
    name, both = f"the champion, version {version}", (reports, runs.reports(uri, champion))
    answer = run_comparison.answer([run, champion], both, ["this run", name])
    rows = [f"| | this run | {name} | |", "|---|---|---|---|"]
    rows += [f"| {' | '.join(map(markdown.cell, cells))} |" for cells in compare(RunPair.of(run, champion, both))]
    first, *more = map(markdown.text, answer)
    return ["", f"**Against the champion:** {first[0].upper()}{first[1:]}", "", *(f"* {line}" for line in more), "", *rows, ""]


def compare(pair: RunPair) -> list[tuple[str, str, str, str]]:
    """A row for each figure: its name, its values in this run and in the champion's, and what the difference means."""
    run, champion = pair.one, pair.other
    rows = [("winner", run.tags.get("winner", "–"), champion.tags.get("winner", "–"), "")]
    for key in client.scores(run.metrics):
        rows.append((key.removeprefix("train/"), *_values(key, pair, figures.distinct), _score_change(key, pair)))
    for name, (key, texts) in _FIGURES.items():
        rows.append((name, *_values(key, pair, texts), _figure_change(key, pair)))
    return [*rows, ("speedup over eager, 95% interval", _interval(run), _interval(champion), _figure_change(_SPEEDUP, pair))]


def _values(key: str, pair: RunPair, texts: Callable[[float, float], tuple[str, str]]) -> tuple[str, str]:
    """A figure of both runs as text, with enough digits to differ; a dash where a run has none."""
    own, theirs = pair.one.metrics.get(key), pair.other.metrics.get(key)
    if own is not None and theirs is not None:
        return texts(own, theirs)
    return "–" if own is None else texts(own, own)[0], "–" if theirs is None else texts(theirs, theirs)[0]


def _known(key: str, pair: RunPair, means: str) -> str:
    """What a difference means; empty unless both runs have the figure."""
    return means if key in pair.one.metrics and key in pair.other.metrics else ""


def _ratio(key: str, pair: RunPair) -> str:
    return change(key, pair.other.metrics[key], pair.one.metrics[key]) if _known(key, pair, key) else ""


def _figure_change(key: str, pair: RunPair) -> str:
    """The ratio of a figure, for p50 with the verdict; a latency or speedup that does not compare has the reason instead."""
    if key in _LATENCIES and (reason := pair.latencies_differ):
        return _known(key, pair, reason)
    ratio = _ratio(key, pair)
    return f"{ratio}: {_verdict(pair)}" if ratio and key == _P50 else ratio


def _score_change(key: str, pair: RunPair) -> str:
    """The difference of a score, with the interval of paired rows for the one on the validation rows, if they are known."""
    if reason := pair.scores_differ:
        return _known(key, pair, reason)
    if pair.first and pair.second and key == f"train/{pair.first.score_name}" and (seen := score_difference(pair.first, pair.second)):
        return figures.change(*seen)
    return _ratio(key, pair)


def _verdict(pair: RunPair) -> str:
    """Whether the latency of this run is better, as a sweep decides it; never of a run that did not pass."""
    if failed := [name for name, run in (("this run", pair.one), ("the champion", pair.other)) if run.outcome != run_comparison.PROVEN]:
        return f"{Difference.CANNOT_TELL}, {' and '.join(failed)} did not pass"
    return choice.compare("latency", pair.first, pair.second) if pair.first and pair.second else Difference.CANNOT_TELL


def _interval(run: Run) -> str:
    if _SPEEDUP not in run.metrics:
        return "–"
    value, low, high = (run.metrics[key] for key in (_SPEEDUP, f"{_SPEEDUP}_low", f"{_SPEEDUP}_high"))
    return f"{units.times(value)} ({units.three(low)} to {units.three(high)})"


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"
