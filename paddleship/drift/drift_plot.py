"""The picture of a comparison: the distributions of the features that differ most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paddleship.drift.feature_comparison import DriftResult, DriftVerdict, FeatureDrift
from paddleship.plots import charts, fonts
from paddleship.shipped.computing.features import Bins

_SHOWN = 4


def draw(result: DriftResult, reports: Path, name: str) -> str:
    """Bars of training rows and requests by bin, for the features with the largest distances. Returns the picture's name."""
    from matplotlib.figure import Figure

    shown = result.features[:_SHOWN]
    figure = Figure(figsize=(7.2, 2.2 * max(1, len(shown))), layout="constrained")
    figure.suptitle(f"Requests against training rows: {len(result.drifted)} of {len(result.features)} features drifted", fontsize=11)
    for feature, axes in zip(shown, figure.subplots(max(1, len(shown)), squeeze=False)[:, 0], strict=False):
        _bars(feature, axes)
    return charts.save(figure, reports, name)


def _bars(feature: FeatureDrift, axes: Any) -> None:
    positions = range(len(feature.training))
    color = charts.RED if feature.verdict == DriftVerdict.DRIFTED else charts.BLUE
    axes.bar([position - 0.2 for position in positions], feature.training, 0.4, color=charts.GREY, label="training rows")
    axes.bar([position + 0.2 for position in positions], feature.requests, 0.4, color=color, label="requests")
    title = f"{feature.name}: {feature.verdict}, distance {feature.distance:.2f}"
    axes.set_title(title, loc="left", fontsize=9, fontfamily=fonts.for_names([title])[0])
    axes.set_xticks(positions, _labels(feature.bins), fontsize=7, rotation=30, ha="right")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=7)


def _labels(bins: Bins) -> list[str]:
    if bins.values:
        return [*(f"{value:.4g}" for value in bins.values), "other"]
    ends = [*bins.cuts, bins.high]
    return [f"< {bins.low:.4g}", *(f"≤ {end:.4g}" for end in ends), f"> {bins.high:.4g}"]
