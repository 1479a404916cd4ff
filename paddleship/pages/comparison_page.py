"""The page that compares several runs: which is better, why, and what cannot be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddleship.pages import charts, comparison, html
from paddleship.pages.charts import Point
from paddleship.pages.comparison import Compared

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
        runs=runs,
        numbered=_numbered(runs),
        differing=comparison.differing(runs),
        chart=_chart(runs, best),
    )


def _numbered(runs: Sequence[Compared]) -> bool:
    """Whether the chart has numbers for names, because they are too many or too long."""
    return len(runs) > _MOST_NAMED or any(len(run.name) > _LONGEST_IN_CHART for run in runs)


def _chart(runs: Sequence[Compared], best: str | None) -> Any:
    """Score against latency of the runs; None if fewer than two have both."""
    names = [str(number + 1) for number in range(len(runs))] if _numbered(runs) else [run.name for run in runs]
    points = [
        Point(name, run.figures.p50_ms, run.figures.score, run.name == best, run.figures.valid)
        for name, run in zip(names, runs, strict=True)
        if run.figures and run.figures.score
    ]
    if len(points) < 2:
        return None
    first = next(run.figures for run in runs if run.figures)
    score, ends = first.score_name.replace("_", " "), first.score_range
    return html.svg(charts.score_against_latency(points, title="Score and latency of each run's winner", score=score, ends=ends))
