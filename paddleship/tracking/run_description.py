"""The description of a run in Markdown: whether all gates passed, the winner, and its speedup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from paddleship.pages import first_screen
from paddleship.reports import units
from paddleship.reports.candidate_rows import candidate_rows
from paddleship.reports.finding import Finding
from paddleship.reports.markdown import cell, text
from paddleship.reports.provenance import measured_elsewhere
from paddleship.reports.report import Report

_MOST_CHARACTERS = 5000  # that MLflow's database takes as the description of a model version


def markdown(reports: Iterable[Report], *, links: Mapping[str, str], failure: str | None = None) -> str:
    """A verdict line, the candidates with links to their charts, and the stages in the given order."""
    ordered = list(reports)
    lines = [first_screen.of_run(ordered, failure=failure).markdown() + _reason(ordered)]
    rows = candidate_rows(ordered)
    if rows:
        lines += ["", "| candidate | p50 | p99 | rows/s | memory | noise ratio | verdict |", "|---|---|---|---|---|---|---|"]
        winner_first = sorted(rows.items(), key=lambda item: not item[1].get("winner"))  # MLflow folds all rows except the first ones
        lines += [_candidate(name, row) for name, row in winner_first]
        lines += [
            "",
            *(f"* [{name}]({address})" for name, address in links.items()),
            "",
            "Noise ratio: error against float64 in units of eager float32's own; 1 is as right as eager.",
        ]
    lines += ["", "| stage | verdict | headline | seconds |", "|---|---|---|---|"]
    lines += [_stage(report) for report in ordered]
    return "\n".join([*lines, *_findings(ordered)]) + "\n"


def version(reports: Iterable[Report], release: Mapping[str, Any], *, run: str, picture: str | None = None) -> str:
    """The description of a model version: the verdict, why it was chosen, the run that measured it, its picture, and all findings."""
    ordered = list(reports)
    row = candidate_rows(ordered).get(release["candidate"], {})
    trained = next((report.headline for report in ordered if report.stage == "train"), None)
    parts = [
        first_screen.of_run(ordered).markdown() + _reason(ordered),
        f"99 of 100 requests take at most {units.duration(row['p99_ms'])}." if row.get("p99_ms") else "",
        f"Training: {text(trained)}." if trained else "",
        f"Accepted as `{release['image']}`. [The run that made it]({run})",
        f"![Latency of every candidate]({picture})" if picture else "",
    ]
    shown = "\n\n".join(filter(None, parts)) + "\n"
    findings = _findings(ordered)
    if sum(len(line) + 1 for line in findings) > _MOST_CHARACTERS - len(shown):
        findings = ["", f"{sum(len(report.serious()) for report in ordered)} findings, see the run."]
    return shown + "\n".join([*findings, ""])


def _reason(reports: Iterable[Report]) -> str:
    """Why the winner was chosen; empty if nothing was measured."""
    benchmark = next((report for report in reports if report.stage == "benchmark"), None)
    if benchmark is None or "reason" not in benchmark.facts:
        return ""
    return text(f" Chosen because {benchmark.facts['reason']}{measured_elsewhere(benchmark)}.")


def _candidate(name: str, row: dict[str, Any]) -> str:
    cells = [_text(units.duration, row.get("p50_ms")), _text(units.duration, row.get("p99_ms"))]
    cells += [_text(units.three, row.get("throughput_per_s"))]
    device = row.get("peak_device_memory_bytes")
    cells += [_text(units.size, row.get("peak_memory_bytes") or None) + (f" + {units.size(device)} on GPUs" if device else "")]
    cells += [_text(units.three, row.get("noise_ratio"))]
    verdict = row.get("reason") or ("**winner**" if row.get("winner") else row.get("status", ""))
    return f"| {cell(f'**{name}**' if row.get('winner') else name)} | {' | '.join(cells)} | {cell(verdict)} |"


def _stage(report: Report) -> str:
    outcome = report.outcome if report.verdict else f"**{report.outcome}**"
    return f"| {report.stage} | {outcome} | {cell(report.headline + measured_elsewhere(report))} | {report.seconds:.1f} |"


def _findings(reports: Iterable[Report]) -> list[str]:
    """The errors and warnings of all stages, as lines."""
    lines = [f"* {report.stage}: {_finding(finding)}" for report in reports for finding in report.serious()]
    return ["", "Findings:", "", *lines] if lines else []


def _finding(finding: Finding) -> str:
    where = f" at {finding.where}" if finding.where else ""
    return f"**{finding.severity}** `{finding.kind}`: {text(f'{finding.message}{where}. {finding.advice}'.strip())}"


def _text(unit: Callable[[float], str], value: float | None) -> str:
    return "–" if value is None else unit(value)
