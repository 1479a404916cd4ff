"""The page of one run: the answer, whether it may be trusted, and what both rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paddleship.pages import charts, html
from paddleship.pages.charts import Point
from paddleship.pages.first_screen import of_run
from paddleship.reports.candidate_rows import candidate_rows
from paddleship.reports.order import in_order
from paddleship.reports.report import Report
from paddleship.statistics.estimates import Interval
from paddleship.sweep.variant import Figures

NAME = "report.html"
_IDENTITIES = ("data_sha256", "code_sha256", "weights_sha256", "image", "image_id", "measured_on")
_COLUMNS = (
    "winner",
    "p50_ms",
    "speedup",
    "speedup_low",
    "speedup_high",
    "noise_ratio",
    "flip_rate",
    "peak_memory_bytes",
    "worst_case",
    "reason",
    "status",
)


class _Curve(NamedTuple):
    """A chart of the benchmark's curves: the key in the report, what it runs along and has as value, and its texts."""

    key: str
    along: str
    value: str
    title: str
    x: str
    y: str


_CURVES = (
    _Curve("batch_size", "batch_size", "throughput_per_s", "Larger batches", "rows in a request", "rows per second (up is better)"),
    _Curve("length", "length", "p50_ms", "Longer inputs", "length", "median time of a request in ms (down is better)"),
    _Curve("concurrency", "processes", "throughput_per_s", "More processes", "processes", "rows per second (up is better)"),
)


def of(name: str, reports: Sequence[Report], folder: Path, *, params: Mapping[str, Any], failure: str | None = None) -> str:
    """The page of a run; its pictures are in `folder`. `failure` is the error that ended it."""
    ordered = in_order(reports)
    rows = candidate_rows(ordered)
    pictures, left_out = html.pictures(folder, [picture for report in ordered for picture in report.pictures])
    return html.render(
        "run.html.j2",
        name=name,
        screen=of_run(ordered, failure=failure),
        warnings=list(dict.fromkeys(f"{report.stage}: {finding.message}" for report in ordered for finding in report.serious())),
        chart=_chart(ordered, rows),
        rows={name: {**dict.fromkeys(_COLUMNS), **row} for name, row in sorted(rows.items(), key=_rank)},
        ratios=_fact(ordered, "winner_speedup"),
        examples=_fact(ordered, "examples"),
        curves=_curves(ordered),
        reports=ordered,
        pictures=pictures,
        left_out=left_out,
        identities={key: report.facts[key] for report in ordered for key in _IDENTITIES if key in report.facts},
        versions=_fact(ordered, "versions"),
        hosts={report.stage: report.host for report in ordered if report.host},
        params=params,
    )


def _rank(item: tuple[str, Mapping[str, Any]]) -> tuple[bool, float]:
    """The winner first, then by latency, and those without one last."""
    return not item[1].get("winner"), float(item[1].get("p50_ms") or "inf")


def _fact(reports: Sequence[Report], key: str) -> Any:
    """A fact of the first stage that reports it; an empty mapping if none does."""
    return next((report.facts[key] for report in reports if key in report.facts), {})


def _curves(reports: Sequence[Report]) -> list[Any]:
    """Charts of how the participants of the benchmark behave with larger batches, longer inputs and more processes."""
    measured, winner, drawn = _fact(reports, "curves"), str(_fact(reports, "winner") or ""), []
    for curve in _CURVES:
        lines = {name: _points(rows.get(curve.key, ()), curve) for name, rows in measured.items()}
        if shown := {name: points for name, points in lines.items() if len(points) > 1}:
            drawn.append(html.svg(charts.lines(shown, chosen=winner, title=curve.title, x=curve.x, y=curve.y)))
    return drawn


def _points(rows: Sequence[Mapping[str, Any]], curve: _Curve) -> list[tuple[float, float]]:
    return [(row[curve.along], row[curve.value]) for row in rows if row[curve.value]]


def _chart(reports: Sequence[Report], rows: Mapping[str, Mapping[str, Any]]) -> Any:
    """Score against latency of the measured candidates; None if nothing was measured, or without a score."""
    figures = Figures.of(reports)
    measured = {name: row for name, row in rows.items() if row.get("p50_ms") and row.get("metric") is not None}
    if figures is None or not measured:
        return None
    points = [_point(name, row, figures) for name, row in measured.items()]
    title, score = "Score and latency of every candidate", "score on the rows of the proof"
    return html.svg(charts.score_against_latency(points, title=title, score=score, ends=figures.score_range))


def _point(name: str, row: Mapping[str, Any], figures: Figures) -> Point:
    p50, score = float(row["p50_ms"]), float(row["metric"])
    low, high = (float(row.get(key) or row["speedup"]) for key in ("speedup_low", "speedup_high"))
    drop = [float(row.get(key) or 0) for key in ("metric_drop_low", "metric_drop_high")]
    spread = Interval(p50, p50 * row["speedup"] / high, p50 * row["speedup"] / low) if row.get("speedup") else Interval(p50, p50, p50)
    return Point(name, spread, Interval(score, score - max(drop[1], 0), score + max(-drop[0], 0)), name == figures.winner, figures.valid)
