"""What variants and runs are compared by: costs, values as text, why two figures do not compare, and the difference of two scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from paddleship.reports import row_scores, units
from paddleship.reports.figures import change, share, shares
from paddleship.statistics import paired_scores
from paddleship.statistics.estimates import Interval
from paddleship.sweep.variant import Figures

Name = TypeVar("Name", int, str)

OBJECTIVES = ("score", "latency", "size")
BY_VALUE = "by value, without an interval"
_MOST_LISTED = 6


def cost(objective: str) -> Callable[[Figures], float]:
    """Lower is better; infinite for what is not known or not valid."""
    costs: dict[str, Callable[[Figures], float]] = {
        "score": lambda figures: -figures.score.value if figures.score and not math.isnan(figures.score.value) else math.inf,
        "latency": lambda figures: figures.p50_ms.value if figures.valid else math.inf,
        "size": lambda figures: figures.size_bytes,
    }
    return costs[objective]


def incomparable(objective: str, one: Figures, other: Figures) -> str:
    """Why two figures do not compare in an objective, as the end of a sentence; empty if they do."""
    if objective == "size":
        return "" if one.size_of == other.size_of else f"one is of {one.size_of} and one of {other.size_of}"
    if objective == "latency":
        if not (one.valid and other.valid):
            return "the machine was not free"
        return "it was measured on different machines" if one.measured_on != other.measured_on else _eager_differs(one, other)
    return _incomparable_scores(one, other)


def compared(objective: str, among: Mapping[Name, Figures]) -> dict[Name, Figures]:
    """The largest group of figures that all compare with each other; empty if no two do, or if another group is as large."""
    groups = list[list[Name]]()
    for name in among:
        if not any(name in group for group in groups):
            groups.append(_comparable_with(name, objective, among))
    most = max(map(len, groups), default=0)
    largest = [group for group in groups if len(group) == most > 1]
    return {name: among[name] for name in among if name in largest[0]} if len(largest) == 1 else {}


def _comparable_with(name: Name, objective: str, among: Mapping[Name, Figures]) -> list[Name]:
    group = [name]
    for other, figures in among.items():
        if other != name and not any(incomparable(objective, figures, among[member]) for member in group):
            group.append(other)
    return group


def _eager_differs(one: Figures, other: Figures) -> str:
    """That eager's speed tells no change of the machine from one of the model; empty if it did not change, or in one sweep."""
    if (one.sweep and one.sweep == other.sweep) or one.eager_ms is None or other.eager_ms is None:
        return ""
    if one.eager_ms.low <= other.eager_ms.high and other.eager_ms.low <= one.eager_ms.high:
        return ""
    both = " and ".join(units.durations(*sorted((one.eager_ms.value, other.eager_ms.value))))
    return f"eager itself took {both}, so the machine's speed or the model changed"


def _incomparable_scores(one: Figures, other: Figures) -> str:
    if any(math.isinf(cost("score")(figures)) for figures in (one, other)):
        return "a score is unknown"
    if one.score_name != other.score_name:
        return "the scores are of different metrics"
    if one.score_code != other.score_code:
        return "the metrics differ, or their code does"
    return "the scores are on different rows" if on_different_rows(one, other) else ""


def on_different_rows(one: Figures, other: Figures) -> bool:
    """Whether two runs have different data, so that one score of both is never of the same rows."""
    return one.data_sha256 != other.data_sha256


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
    """How much better the score of `one` is, with the interval of paired rows; None if they do not compare, or the rows are not known."""
    if incomparable("score", one, other):
        return None
    return paired_scores.difference(row_scores.unpack(one.row_scores), row_scores.unpack(other.row_scores))


def only_by_value(one: Figures, other: Figures) -> bool:
    """Whether two scores compare, but by their value alone: without an interval."""
    if incomparable("score", one, other) or score_difference(one, other):
        return False
    return not (one.score_has_interval and other.score_has_interval)


def difference_text(objective: str, one: Figures, other: Figures) -> str:
    """What is known of the difference of two scores: its interval, or that there is none. Empty for other objectives."""
    if objective != "score" or incomparable("score", one, other):
        return ""
    if seen := score_difference(one, other):
        return change(*seen)
    return BY_VALUE if only_by_value(one, other) else ""


def listed(names: Sequence[str]) -> str:
    """Names as part of a sentence, of many the first ones."""
    if len(names) > _MOST_LISTED:
        return f"{', '.join(names[:_MOST_LISTED])} and {len(names) - _MOST_LISTED} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def in_parentheses(text: str) -> str:
    """A text to be appended to another; empty if it is."""
    return f" ({text})" if text else ""


def against_next(objective: str, one: Figures, others: Mapping[Name, Figures]) -> tuple[str, str, Name]:
    """The value of `one`, the best value of the others, and the name of the one that has it."""
    name: Name = min(others, key=lambda other: cost(objective)(others[other]))
    return *values(objective, one, others[name]), name
