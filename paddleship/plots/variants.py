"""The variants of a sweep in one chart: latency against score, with the size as area."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paddleship.plots import fonts
from paddleship.plots.charts import BLUE, GREEN, GREY, limit_scores, new, plain_log_axis, save
from paddleship.plots.labels import wrapped

_ROOM = 0.2  # of the axes' length, beside the outermost points
_LISTED = 12  # variants whose values are written beside the chart
_SMALLEST, _LARGEST = 120, 700  # areas in points
_SLIDE = {"width": 9.6, "height": 5.4}  # inches
_SLIDE_DPI = 200  # so that it has 1920 by 1080 pixels
_TITLE, _LINE = 80, 110  # columns of the title, and of the reason below it
_ENTRY = 60  # columns of a variant in the list


def pareto(
    rows: Mapping[int, Mapping[str, Any]],
    best: int | None,
    front: Sequence[int],
    reports: Path,
    name: str,
    *,
    reason: str,
    score: str,
    size: str,
    ends: tuple[float | None, float | None] = (None, None),
) -> str:
    """One point for each variant, with its number, as large as a slide. Green: chosen; blue: no other beats it; grey: another one does.

    A row has `label`, `p50_ms`, `score` and `size_bytes`, and the ends of the intervals: `p50_low`, `p50_high`, `score_low`, `score_high`.
    `ends` are those of the range of the score.
    """
    title = f"Variant {best} is chosen: {rows[best]['label']}" if best is not None else "No variant is within the limits"
    figure, axes = new("", **_SLIDE)
    families, _ = fonts.for_names([title, reason])
    figure.suptitle(wrapped(title, _TITLE), x=0.01, ha="left", fontsize=13, fontweight="bold", fontfamily=families)
    axes.set_title(wrapped(reason, _LINE), loc="left", fontsize=9, fontfamily=families)
    largest = max(row["size_bytes"] for row in rows.values())
    colors = {number: GREEN if number == best else BLUE if number in front else GREY for number in rows}
    for number, row in rows.items():
        x, y = row["p50_ms"], row["score"]
        reach = {
            "xerr": [[x - row["p50_low"]], [row["p50_high"] - x]],
            "yerr": [[y - row["score_low"]], [row["score_high"] - y]],
        }
        axes.errorbar(x, y, **reach, color=colors[number], linewidth=0.8, alpha=0.5, zorder=1)
        area = _SMALLEST + (_LARGEST - _SMALLEST) * row["size_bytes"] / largest
        axes.scatter(x, y, s=area, color=colors[number], alpha=0.85, edgecolors="white", zorder=2)
        axes.annotate(str(number), (x, y), ha="center", va="center", fontsize=8, color="white", fontweight="bold", zorder=3)
    _list(axes, rows, colors, [*([best] if best is not None else []), *(number for number in front if number != best)])
    plain_log_axis(axes)
    axes.margins(x=_ROOM, y=_ROOM)
    limit_scores(axes, ends)
    axes.set_xlabel(f"p50 in ms, with its interval (left is better); area: size of {size}")
    axes.set_ylabel(f"{score}, with its interval (up is better)")
    return save(figure, reports, name, dpi=_SLIDE_DPI)


def _list(axes: Any, rows: Mapping[int, Mapping[str, Any]], colors: Mapping[int, str], shown: Sequence[int]) -> None:
    """The values of the variants that no other one beats, below the chart."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker="o", linestyle="", color=colors[number], label=wrapped(f"{number}  {rows[number]['label']}", _ENTRY))
        for number in shown[:_LISTED]
    ]
    if GREY in colors.values():
        handles.append(Line2D([], [], marker="o", linestyle="", color=GREY, label="another variant is better"))
    families, _ = fonts.for_names([str(handle.get_label()) for handle in handles])
    prop = {"family": families, "size": 8}
    axes.figure.legend(handles=handles, loc="outside lower left", frameon=False, prop=prop, ncols=1 if len(handles) < 5 else 2)
