"""How a trained model decides, class by class: the confusion matrix, or the most frequent confusions of many classes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paddleship.plots import fonts
from paddleship.plots.charts import GREY, RED, new, save

_SHOWN = 20  # pairs of classes
_LONGEST = 24  # characters of a name


def matrix(counts: Any, names: Sequence[str], reports: Path, name: str) -> str:
    """The confusion matrix: a row for the class of the label, a column for the class that was decided, coloured by share of the row."""
    import numpy as np

    total, right = int(counts.sum()), int(counts.diagonal().sum())
    size = len(names)
    figure, axes = new(f"{total - right:,} of {total:,} decisions on the test rows are wrong", height=1.9 + 0.4 * size)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for (row, column), count in np.ndenumerate(counts):
        if count:
            color = "white" if shares[row, column] > 0.5 else "black" if row == column else RED
            axes.text(column, row, f"{count:,}", ha="center", va="center", fontsize=9 if size <= 12 else 6, color=color)
    labels, families = _labels(names)
    axes.set_xticks(range(size), labels, fontfamily=families, rotation=0 if size <= 4 else 60, ha="center" if size <= 4 else "right")
    axes.set_yticks(range(size), labels, fontfamily=families)
    axes.set_xlabel("decision")
    axes.set_ylabel("label")
    return save(figure, reports, name)


def pairs(confused: Sequence[tuple[str, str, int]], reports: Path, name: str) -> str:
    """Bars of the most frequent wrong decisions."""
    shown = list(reversed(confused[:_SHOWN]))
    figure, axes = new(f"The {len(shown)} most frequent wrong decisions on the test rows", height=0.32 * len(shown) + 1.5)
    axes.barh(range(len(shown)), [count for _, _, count in shown], color=GREY, height=0.6)
    names, families = _labels([label for pair in shown for label in pair[:2]])
    texts = [f"{names[2 * index]} → {names[2 * index + 1]}" for index in range(len(shown))]
    axes.set_yticks(range(len(shown)), texts, fontfamily=families)
    axes.set_xlabel("rows or positions (label → decision)")
    return save(figure, reports, name)


def _labels(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names as far as there is room, with numbers for those that no font has, and the fonts that have the others."""
    families, undrawn = fonts.for_names(names)
    short = [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name in names]
    return [f"class {index}" if index in undrawn else text for index, text in enumerate(short)], families
