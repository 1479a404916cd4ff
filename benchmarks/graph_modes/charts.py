"""Charts: times of each mode, loss by steps and by seconds, and the claims with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.graph_modes.claims import ClaimResult
from benchmarks.graph_modes.comparison import ModeResult
from paddleship.config.graph_modes import ModeName
from paddleship.plots.charts import BLUE, GREEN, GREY, RED, save

_COLORS = (BLUE, RED, GREEN, GREY, "#8a5fb0", "#c98a1b", "#333333", "#5bb5c4", "#d98cb3")
_WORDS = {"confirmed": GREEN, "refuted": RED, "cannot tell": GREY}


def times(network: str, measurements: Mapping[ModeName, ModeResult], reports: Path, name: str) -> str:
    """Bars of the median step, batch and single row of each mode."""
    shown = {mode: measurement for mode, measurement in measurements.items() if measurement.measured}
    figure, panels = _new(f"{network}: what each mode takes", panels=3, height=0.42 * len(shown) + 1.5)
    places = range(len(shown))
    quantities = {"step_ms": "one training step", "forward_ms": "forward of one batch", "request_ms": "forward of one row"}
    for axes, (quantity, title) in zip(panels, quantities.items(), strict=True):
        values = [measurement.median(quantity) for measurement in shown.values()]
        axes.barh(places, [value or 0 for value in values], color=[GREEN if mode == _fastest(shown, quantity) else GREY for mode in shown])
        for place, value in enumerate(values):
            axes.text(value or 0, place, f" {_digits(value)}" if value else " –", va="center", fontsize=8)
        axes.set_xlim(0, 1.3 * max((value for value in values if value), default=1))
        axes.set_xlabel(f"{title}, ms", fontsize=9)
        axes.set_yticks(places, list(shown) if axes is panels[0] else [""] * len(shown), fontsize=8)
        axes.invert_yaxis()
    return save(figure, reports, name)


def losses(network: str, measurements: Mapping[ModeName, ModeResult], reports: Path, name: str) -> str:
    """Loss against steps and against seconds of training, smoothed over a tenth of the curve."""
    figure, panels = _new(f"{network}: loss against steps and seconds", panels=2, height=3.6)
    trained = {mode: measurement for mode, measurement in measurements.items() if measurement.measured and measurement.losses}
    for (mode, measurement), color in zip(trained.items(), _COLORS, strict=False):
        curve = _smooth(measurement.losses)
        steps = np.arange(1, len(curve) + 1)
        seconds = (measurement.facts["first_step_s"] or 0) + (steps - 1) * (measurement.median("step_ms") or 0) / 1e3
        panels[0].plot(steps, curve, color=color, linewidth=1.2, label=mode)
        panels[1].plot(seconds, curve, color=color, linewidth=1.2)
    panels[0].set_xlabel("steps")
    panels[1].set_xlabel("seconds from building the network (median step)")
    panels[1].set_xscale("log")
    panels[0].set_ylabel("loss")
    panels[0].legend(frameon=False, fontsize=7)
    return save(figure, reports, name)


def claims(results: Sequence[ClaimResult], reports: Path, name: str) -> str:
    """Each interval beside the claimed range (blue)."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    shown = [result for result in results if result.ratio is not None]
    figure, (axes,) = _new("Claimed range (blue) and the ratio measured on this machine", panels=1, height=0.3 * len(shown) + 1.6)
    for place, result in enumerate(shown):
        axes.barh(place, result.claim.high - result.claim.low, left=result.claim.low, color=BLUE, alpha=0.25, height=0.8)
        axes.plot([result.low, result.high], [place, place], color=_WORDS[result.conclusion], linewidth=3)
        axes.plot(result.ratio, place, "o", color=_WORDS[result.conclusion], markersize=5)
    words = [f"{result.claim.text}: {result.network}, {(result.pair or ('', ''))[1]}" for result in shown]
    axes.set_yticks(range(len(shown)), words, fontsize=7)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.axvline(1, color="#333333", linewidth=0.8, linestyle=":")
    axes.set_xlabel("ratio with 95% interval; green: confirmed, red: refuted, grey: cannot tell")
    return save(figure, reports, name)


def _fastest(measurements: Mapping[ModeName, ModeResult], quantity: str) -> ModeName | None:
    timed = {mode: value for mode, measurement in measurements.items() if (value := measurement.median(quantity)) is not None}
    return min(timed, key=lambda mode: timed[mode], default=None)


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _smooth(values: Sequence[float]) -> Any:
    width = max(1, len(values) // 10)
    return np.convolve(values, np.ones(width) / width, mode="valid")


def _new(title: str, *, panels: int, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, height), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes
