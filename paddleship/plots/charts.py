"""Charts for reports: PNG, readable as thumbnails, one message each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paddleship.plots import fonts, labels

_LABEL, _TITLE = 32, 70  # columns of a label beside its point, and of a title
GREY, BLUE, GREEN, RED = "#9aa5b1", "#2f6db5", "#2e9e6b", "#c8443a"


def histogram(values: Any, reports: Path, name: str, *, title: str, unit: str) -> str:
    import numpy as np

    figure, axes = new(title)
    axes.hist(np.asarray(values, np.float64), bins=40, color=BLUE)  # float32 cannot hold the edges of bins around a large number
    axes.set_xlabel(unit)
    axes.set_ylabel("rows")
    return save(figure, reports, name)


def curves(series: Mapping[str, Sequence[float]], reports: Path, name: str, *, title: str, x_label: str) -> str:
    figure, axes = new(title)
    for (label, values), color in zip(series.items(), (BLUE, RED, GREEN, GREY), strict=False):
        axes.plot(range(1, len(values) + 1), values, marker="o", label=label, color=color)
    axes.set_xlabel(x_label)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    return save(figure, reports, name)


def latency(rows: Mapping[str, Mapping[str, Any]], winner: str, reports: Path, name: str, *, batch_size: int = 1, note: str = "") -> str:
    """Bars of p50, fastest first, the winner in green; each with its speedup and the highest percentile that has enough samples.

    `note` is what a reader must know before the figures; it ends the title.
    """
    gain = rows[winner].get("speedup")
    figure, axes = new(_noted(f"{winner} wins" + (f": {gain:.1f}× as fast as eager" if gain else ""), note), height=0.42 * len(rows) + 1.5)
    ranked = sorted(rows, key=lambda label: float(rows[label]["p50_ms"]), reverse=True)
    for index, label in enumerate(ranked):
        row = rows[label]
        tail = next((key for key in ("p99_ms", "p95_ms", "p90_ms") if row.get(key) is not None), None)
        axes.barh(index, row["p50_ms"], color=GREEN if label == winner else GREY, height=0.6)
        parts = [f"{row['p50_ms']:.3g} ms"]
        parts += [f"{row['speedup']:.2g}×"] if row.get("speedup") else []
        parts += [f"{tail[:3]} {row[tail]:.3g}"] if tail else []
        axes.text(row["p50_ms"], index, "  " + ", ".join(parts), va="center", fontsize=9, fontweight="bold" if label == winner else None)
    axes.set_yticks(range(len(ranked)), ranked)
    axes.set_xlim(0, max(row["p50_ms"] for row in rows.values()) * 1.45)
    axes.set_xlabel(f"p50 of one request in ms, batch {batch_size}")
    return save(figure, reports, name)


def pareto(
    rows: Mapping[str, Mapping[str, Any]],
    winner: str,
    quality: str,
    reports: Path,
    name: str,
    *,
    batch_size: int = 1,
    note: str = "",
    ends: tuple[float | None, float | None] = (None, None),
) -> str:
    """Latency against score, with the image size as area; a line joins the Pareto-optimal candidates, the winner is green.

    `ends` are those of the range of the score.
    """
    figure, axes = new(_noted(labels.wrapped(f"What {winner} is chosen from: latency against {quality}", _TITLE), note), height=4.2)
    largest = max(row.get("image_bytes") or 0 for row in rows.values())
    front = [
        (row["p50_ms"], row["metric"])
        for row in rows.values()
        if not any(other["p50_ms"] < row["p50_ms"] and other["metric"] >= row["metric"] for other in rows.values())
    ]
    axes.step(*zip(*sorted(front), strict=True), where="post", color=BLUE, linewidth=1, zorder=1)
    families, _ = fonts.for_names([*rows])
    texts = []
    for label, row in sorted(rows.items(), key=lambda item: item[1]["p50_ms"]):
        area = 40 + 600 * (row.get("image_bytes") or 0) / largest if largest else 80
        color = GREEN if label == winner else GREY
        axes.scatter(row["p50_ms"], row["metric"], s=area, color=color, alpha=0.7, edgecolors="white", zorder=2)
        size = f", {row['image_bytes'] / 1e6:.0f} MB" if row.get("image_bytes") else ""
        arrow = {"arrowstyle": "-", "color": GREY, "linewidth": 0.6}
        text = labels.wrapped(f"{label}{size}", _LABEL)
        near = {"textcoords": "offset points", "fontsize": 8, "fontfamily": families, "arrowprops": arrow}
        texts.append(axes.annotate(text, (row["p50_ms"], row["metric"]), (0, 0), **near))
    plain_log_axis(axes)
    axes.margins(x=0.25, y=0.6)
    limit_scores(axes, ends)
    axes.set_xlabel(f"p50 in ms, batch {batch_size} (left is better); area: size of the image")
    axes.set_ylabel(f"{quality} (up is better)")
    labels.place(axes, texts)
    return save(figure, reports, name)


def noise(
    ratios: Mapping[str, float], limit: float, reports: Path, name: str, *, title: str = "Error of each candidate, in units of eager's own"
) -> str:
    """The noise ratio of each candidate on a logarithmic axis, with the limit."""
    figure, axes = new(title, height=0.55 * len(ratios) + 1.6)
    labels = list(reversed(list(ratios)))
    floor = 0.01
    for index, label in enumerate(labels):
        ratio = ratios[label]
        axes.barh(index, max(ratio, floor), color=GREEN if ratio <= limit else RED, height=0.6)
        axes.text(max(ratio, floor), index, f"  {ratio:.3g}×", va="center", fontsize=9)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xscale("log")
    axes.set_xlim(floor, max(limit, *ratios.values()) * 5)
    axes.axvline(limit, color=RED, linestyle="--", linewidth=1)
    axes.axvline(1, color=GREY, linestyle=":", linewidth=1)
    axes.set_xlabel(f"noise ratio (dotted: eager float32, dashed: limit {limit:g})")
    return save(figure, reports, name)


def errors(series: Mapping[str, Any], limit: float, reports: Path, name: str) -> str:
    """Histogram of the errors of single numbers on a logarithmic axis, eager's own in grey, with the limit."""
    import numpy as np

    figure, axes = new("Error of every number in the answers")
    floor = 1e-4
    edges = np.geomspace(floor, max(limit * 3, *(float(values.max(initial=0)) for values in series.values())), 60)
    for (label, values), color in zip(series.items(), (GREY, BLUE, GREEN, RED, "#8a5fb0", "#c98a1b"), strict=False):
        exact = float((values < floor).mean()) if len(values) else 0.0
        counts = np.histogram(np.clip(values, floor, None), edges)[0] / max(len(values), 1)
        text = label + (f" ({exact:.0%} exact)" if exact >= 0.005 else "")
        axes.stairs(counts, edges, label=text, color=color, fill=label == "eager", alpha=0.35 if label == "eager" else 1, linewidth=1.6)
    axes.axvline(limit, color=RED, linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel(f"distance from the float64 truth, 1 = eager's largest (dashed: limit {limit:g})")
    axes.set_ylabel("share of numbers")
    axes.legend(frameon=False, fontsize=9)
    return save(figure, reports, name)


def confusion(before: Any, after: Any, classes: Sequence[str], candidate: str, reports: Path, name: str) -> str:
    """Decisions of eager against those of one candidate; flipped decisions are off the diagonal.

    A class whose name no installed font can draw has its number instead.
    """
    import numpy as np

    before, after = np.ravel(before), np.ravel(after)
    present = np.unique(np.concatenate([before, after]))[:20]
    counts = np.array([[int(((before == row) & (after == column)).sum()) for column in present] for row in present])
    flipped = int((before != after).sum())
    figure, axes = new(f"{candidate}: {flipped} of {len(before)} decisions differ from eager's", height=1.8 + 0.45 * len(present))
    named = [classes[index] if index < len(classes) else str(index) for index in present]
    families, undrawn = fonts.for_names(named)
    labels = [f"class {index}" if position in undrawn else named[position] for position, index in enumerate(present)]
    wrong = ~np.eye(len(present), dtype=bool)
    axes.imshow(np.where(wrong & (counts > 0), 2, (counts > 0).astype(int)), cmap=_colors(), vmin=0, vmax=2, aspect="auto")
    for (row, column), count in np.ndenumerate(counts):
        axes.text(column, row, f"{count:,}", ha="center", va="center", fontsize=9, color="white" if count else GREY)
    axes.set_xticks(range(len(present)), labels, fontfamily=families)
    axes.set_yticks(range(len(present)), labels, fontfamily=families)
    axes.set_xlabel(f"decision of {candidate}")
    axes.set_ylabel("decision of eager")
    return save(figure, reports, name)


def layers(errors: Sequence[Any], candidate: str, limit: float, reports: Path, name: str) -> str:
    """The error of each sublayer alone, in the order of the calls: eager's own, the candidate's, and the limit.

    A cross at the top means no answer, NaN, or an answer of another shape.
    """
    shown = [error for error in errors if error.ratio is not None]
    indices = range(len(shown))
    wrong = [index for index in indices if shown[index].ratio > limit]
    title = f"{len(wrong)} of {len(shown)} layers depart from the truth" if wrong else "every layer is right when it is asked alone"
    figure, axes = new(f"{candidate}: {title}", height=4.4)
    floor = min(error.noise for error in shown) / 100
    top = 3 * max([limit * error.noise for error in shown] + [error.candidate for error in shown if error.candidate < float("inf")])
    axes.plot(indices, [max(error.reference, floor) for error in shown], "s-", color=GREY, linewidth=1, markersize=4, label="eager float32")
    axes.plot(indices, [limit * error.noise for error in shown], color=RED, linestyle="--", linewidth=1, label=f"limit {limit:g} × eager")
    heights = [min(max(error.candidate, floor), top) for error in shown]
    axes.plot(indices, heights, "o-", color=BLUE, linewidth=1, markersize=5, label=candidate)
    for index in wrong:
        axes.plot(index, heights[index], "X" if shown[index].candidate == float("inf") else "o", color=RED, markersize=7)
    every = -(-len(shown) // 40)
    named = [index for index in indices if index % every == 0 or index in wrong[:3]]
    axes.set_xticks(named, [shown[index].call.path or shown[index].call.kind for index in named], rotation=60, ha="right", fontsize=7)
    axes.set_yscale("log")
    axes.set_ylim(floor / 2, top * 2)
    axes.set_ylabel("error relative to the size of the answer")
    axes.legend(frameon=False, fontsize=9)
    return save(figure, reports, name)


def limit_scores(axes: Any, ends: tuple[float | None, float | None]) -> None:
    """End the axis of the scores where their range ends; what lies there is drawn as a whole."""
    low, high = axes.get_ylim()
    lowest, highest = ends
    axes.set_ylim(low if lowest is None else max(low, lowest), high if highest is None else min(high, highest))
    for artist in [*axes.lines, *axes.collections]:
        artist.set_clip_on(False)


def plain_log_axis(axes: Any, name: str = "x") -> None:
    """A logarithmic axis, x or y, with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis = getattr(axes, f"{name}axis")
    axes.set(**{f"{name}scale": "log"})
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _noted(title: str, note: str) -> str:
    return f"{title}\n({note})" if note else title


def _colors() -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap(["#f3f5f7", GREEN, RED])


def new(title: str, *, height: float = 3.6, width: float = 7.2) -> tuple[Any, Any]:
    """A figure with one pair of axes, as all charts have them; sizes in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=11, fontweight="bold", fontfamily=fonts.for_names([title])[0])
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Any, reports: Path, name: str, *, dpi: int = 130) -> str:
    """Write the figure below the reports, with the same bytes for the same content. Returns its name."""
    path = reports / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with fonts.without_glyph_warnings():
        figure.savefig(path, dpi=dpi, metadata={"Software": None})
    return name
