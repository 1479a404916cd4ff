"""What variants and runs are compared by: its cost, two values of it as text, and the difference of two scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from paddleship.reports import units
from paddleship.reports.figures import share, shares
from paddleship.statistics import paired_scores
from paddleship.statistics.estimates import Interval
from paddleship.sweep.variant import Figures

Name = TypeVar("Name", int, str)

OBJECTIVES = ("score", "latency", "size")


def cost(objective: str) -> Callable[[Figures], float]:
    """Lower is better."""
    costs: dict[str, Callable[[Figures], float]] = {
        "score": lambda figures: -figures.score.value if figures.score else 0.0,
        "latency": lambda figures: figures.p50_ms.value,
        "size": lambda figures: figures.size_bytes,
    }
    return costs[objective]


def values(objective: str, one: Figures, other: Figures) -> tuple[str, str]:
    """Both values with their unit, and with enough digits to differ if they do."""
    if objective == "score":
        if one.score and other.score:
            return shares(one.score.value, other.score.value)
        known = tuple(share(figures.score.value) if figures.score else "unknown" for figures in (one, other))
        return known[0], known[1]
    if objective == "latency":
        return units.durations(one.p50_ms.value, other.p50_ms.value)
    return units.sizes(one.size_bytes, other.size_bytes)


def score_difference(one: Figures, other: Figures) -> Interval | None:
    """How much better the score of `one` is, with the interval of paired rows; None if the rows are not the same, or not known."""
    if (one.score_name, one.data_sha256) != (other.score_name, other.data_sha256):
        return None
    return paired_scores.difference(one.row_scores, other.row_scores)


def difference_text(objective: str, one: Figures, other: Figures) -> str:
    """The difference of two scores with its interval, in parentheses; empty where there is none."""
    seen = score_difference(one, other) if objective == "score" else None
    return f" ({seen.value:+z.4f}, 95% interval {seen.low:+z.4f} to {seen.high:+z.4f})" if seen else ""


def against_next(objective: str, one: Figures, others: Mapping[Name, Figures]) -> tuple[str, str, Name]:
    """The value of `one`, the best value of the others, and the name of the one that has it."""
    name: Name = min(others, key=lambda other: cost(objective)(others[other]))
    return *values(objective, one, others[name]), name
