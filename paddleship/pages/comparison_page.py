"""The page that compares several runs: which is better, why, and what cannot be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paddleship.pages import charts, comparison, html
from paddleship.pages.charts import Point
from paddleship.pages.comparison import Compared


def of(runs: Sequence[Compared]) -> str:
    return html.render(
        "comparison.html.j2",
        name="Comparison of " + " and ".join(run.name for run in runs) if len(runs) < 4 else f"Comparison of {len(runs)} runs",
        answer=comparison.answer(runs),
        doubts=comparison.doubts(runs),
        runs=runs,
        differing=comparison.differing(runs),
        chart=_chart(runs),
    )


def _chart(runs: Sequence[Compared]) -> Any:
    """Score against latency of the runs; None if fewer than two have both."""
    points = [
        Point(run.name, run.figures.p50_ms, run.figures.score, run.screen.usable, run.figures.valid)
        for run in runs
        if run.figures and run.figures.score
    ]
    if len(points) < 2:
        return None
    name = next(run.figures.score_name for run in runs if run.figures)
    return html.svg(charts.score_against_latency(points, title="Score and latency of each run's winner", score=name.replace("_", " ")))
