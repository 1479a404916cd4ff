"""What variants and runs are compared by: its cost, and two values of it as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from paddleship.reports import units
from paddleship.reports.figures import share, shares
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


def against_next(objective: str, one: Figures, others: Mapping[Name, Figures]) -> tuple[str, str, Name]:
    """The value of `one`, the best value of the others, and the name of the one that has it."""
    name: Name = min(others, key=lambda other: cost(objective)(others[other]))
    return *values(objective, one, others[name]), name
