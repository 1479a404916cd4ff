"""The page that compares several runs: which is better, why, and what cannot be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from paddleship.pages import charts, comparison, html
from paddleship.pages.charts import Point
from paddleship.pages.comparison import Compared
from paddleship.sweep.variant import Figures

_MOST_NAMED = 4  # runs with their names in the chart; more have their numbers
_LONGEST_IN_CHART = 40  # characters of a name: a longer one would leave the chart


def of(runs: Sequence[Compared]) -> str:
    name = "Comparison of " + " and ".join(run.name for run in runs) if len(runs) < 4 else f"Comparison of {len(runs)} runs"
    return render(runs, name=name, answer=comparison.answer(runs), best=comparison.best(runs))


def render(runs: Sequence[Compared], *, name: str, answer: str, best: str | None) -> str:
    """The page with this title and answer; `best` is the run that is green."""
    return html.render(
        "comparison.html.j2",
        name=name,
        answer=answer,
        best=best,
        doubts=comparison.doubts(runs),
        notes=comparison.notes(runs),
        warnings=comparison.warnings(runs),
        alike=_alike([run.figures for run in runs if run.figures]),
        severities=_severities(runs),
        runs=runs,
        numbered=_numbered(runs),
        differing=comparison.differing(runs),
        chart_left_out=_chart_left_out(runs),
        chart=None if _chart_left_out(runs) else _chart(runs, best),
    )


def _numbered(runs: Sequence[Compared]) -> bool:
    """Whether the chart has numbers for names, because they are too many or too long."""
    return len(runs) > _MOST_NAMED or any(len(run.name) > _LONGEST_IN_CHART for run in runs)


def _alike(measured: Sequence[Figures]) -> str:
    """That the runs have the same rows and machine, as far as that is known of all of them, as the end of a sentence."""
    known = {"the same rows": {one.data_sha256 for one in measured}, "the same machine": {one.measured_on for one in measured}}
    same = [what for what, values in known.items() if len(values) == 1 and all(values)]
    return f", on {' and '.join(same)}" if same else ""


def _severities(runs: Sequence[Compared]) -> str:
    """What the findings of the runs that can be chosen are: errors, warnings, or both."""
    severities = {finding.severity for run in runs if run.screen.usable for finding in run.findings}
    return " and ".join(f"{severity}s" for severity in ("error", "warning") if severity in severities)


def _drawn(runs: Sequence[Compared]) -> list[tuple[Compared, Figures]]:
    return [(run, run.figures) for run in runs if run.figures and run.figures.score]


def _chart_left_out(runs: Sequence[Compared]) -> str:
    """Why the scores of the runs are not on one axis, as the end of a sentence; empty if they are."""
    drawn = _drawn(runs)
    if different := [path for path in comparison.differing([run for run, _ in drawn]) if path in comparison.TASK]:
        return f"the runs answer different questions: {', '.join(different)} differs"
    if any((one.score_name, one.score_code) != (other.score_name, other.score_code) for (_, one), (_, other) in pairwise(drawn)):
        return "the scores of the runs are of different metrics"
    return ""


def _chart(runs: Sequence[Compared], best: str | None) -> Any:
    """Score against latency of the runs; None if fewer than two have both."""
    names = [str(number + 1) for number in range(len(runs))] if _numbered(runs) else [run.name for run in runs]
    points = [
        Point(name, run.figures.p50_ms, run.figures.score, run.name == best, run.figures.valid, run.screen.usable)
        for name, run in zip(names, runs, strict=True)
        if run.figures and run.figures.score
    ]
    if len(points) < 2:
        return None
    _, first = _drawn(runs)[0]
    score, ends, title = first.score_name.replace("_", " "), first.score_range, "Score and latency of each run's winner"
    return html.svg(charts.score_against_latency(points, title=title, score=score, spread="comparison range", ends=ends))
