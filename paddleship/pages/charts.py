"""Charts of pages, as SVG whose text is text, the same bytes for the same content."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from paddleship.plots import charts, fonts, labels
from paddleship.statistics.estimates import Interval

_LEAST_RANGE = 0.02  # of the score axis, as a share of the score
_SHADES = (charts.GREY, charts.BLUE, "#5b6875", "#c98a1b", "#8a5fb0")
_MARKERS = "osD^vPX"
_LABEL, _ENTRY = 28, 26  # columns of a label beside its point, and of an entry of a legend
_LINE_INCHES = 0.17  # height of a line of a legend
_SIZED = re.compile(r'<svg([^>]*?) width="[^"]*pt" height="[^"]*pt"')


class Point(NamedTuple):
    """One candidate or run: its latency in ms and its score, each with its interval, whether it is the one to look at,
    whether its latency is valid, and whether it can be chosen."""

    label: str
    p50_ms: Interval
    score: Interval
    chosen: bool
    valid: bool = True
    usable: bool = True

    @property
    def filled(self) -> bool:
        return self.valid and self.usable


def score_against_latency(
    points: Sequence[Point],
    *,
    title: str,
    score: str,
    spread: str = "95% interval",
    ends: tuple[float | None, float | None] = (None, None),
) -> str:
    """The points with their intervals; left is faster, up is better. What is not valid or cannot be chosen is hollow.

    `spread` is what the interval of a latency is; `ends` are those of the range of the score.
    """
    figure, axes = charts.new(title, height=3.8)
    families, _ = fonts.for_names([point.label for point in points])
    texts = []
    for point in sorted(points, key=lambda one: one.p50_ms.value):
        color = charts.GREEN if point.chosen else charts.GREY
        spread_x = [[point.p50_ms.value - point.p50_ms.low], [point.p50_ms.high - point.p50_ms.value]]
        low, high = _within(point.score, ends)
        spread_y = [[point.score.value - low], [high - point.score.value]]
        face = color if point.filled else "white"
        axes.errorbar(point.p50_ms.value, point.score.value, spread_y, spread_x, fmt="o", color=color, markerfacecolor=face, capsize=3)
        text = axes.annotate(
            labels.wrapped(point.label, _LABEL),
            (point.p50_ms.value, point.score.value),
            (0, 0),
            textcoords="offset points",
            fontsize=8,
            fontfamily=families,
            parse_math=False,
            arrowprops={"arrowstyle": "-", "color": color, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3},
        )
        texts.append(text)
    charts.plain_log_axis(axes)
    axes.margins(x=0.2, y=0.25)
    axes.ticklabel_format(axis="y", useOffset=False)
    low, high = axes.get_ylim()
    room = max(_LEAST_RANGE * abs(high + low) / 2 - (high - low), 0) / 2  # so that no rounding looks like a difference
    axes.set_ylim(low - room, high + room)
    charts.limit_scores(axes, ends)
    axes.set_xlabel(f"median time of a request in ms (left is faster), {spread}{_hollow(points)}")
    axes.set_ylabel(score)
    labels.place(axes, texts)
    return _svg(figure)


def _hollow(points: Sequence[Point]) -> str:
    """What hollow points are; empty if there is none."""
    invalid, unusable = not all(one.valid for one in points), not all(one.usable for one in points)
    reasons = ["not valid"] * invalid + ["cannot be chosen"] * unusable
    return f"; hollow: {' or '.join(reasons)}" if reasons else ""


def _within(interval: Interval, ends: tuple[float | None, float | None]) -> tuple[float, float]:
    """The ends of an interval, as far as the score can have them."""
    lowest, highest = ends
    low = interval.low if lowest is None else max(interval.low, min(lowest, interval.value))
    return low, interval.high if highest is None else min(interval.high, max(highest, interval.value))


def lines(series: Mapping[str, Sequence[tuple[float, float]]], *, chosen: str, title: str, x: str, y: str) -> str:
    """A line for each name, the chosen one in green, the others told apart by marker and shade; both axes logarithmic."""
    names = {name: labels.wrapped(name, _ENTRY) for name in series}
    rows = sum(text.count("\n") + 1 for text in names.values())
    figure, axes = charts.new(title, height=max(3.2, rows * _LINE_INCHES + 0.3))
    families, _ = fonts.for_names([*series])
    for index, (name, points) in enumerate(sorted(series.items(), key=lambda item: item[0] != chosen)):
        color = charts.GREEN if name == chosen else _SHADES[index % len(_SHADES)]
        axes.plot(
            *zip(*points, strict=True), marker=_MARKERS[index % len(_MARKERS)], color=color, label=names[name], markersize=5, linewidth=1.5
        )
    charts.plain_log_axis(axes)
    charts.plain_log_axis(axes, "y")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.figure.legend(loc="outside right upper", frameon=False, prop={"family": families, "size": 8})
    return _svg(figure)


def _svg(figure: object) -> str:
    """A figure as an element of a page, as wide as there is room."""
    from matplotlib import rc_context

    stream = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "paddleship"}), fonts.without_glyph_warnings():
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})  # type: ignore[attr-defined]
    text = stream.getvalue()
    return _SIZED.sub(r'<svg\1 width="100%" role="img"', text[text.index("<svg") :], count=1)
