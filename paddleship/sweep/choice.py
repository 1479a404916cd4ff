"""Compare variants by score, latency and size, find those that no other one beats, and choose one of them.

Two scores are compared on the same validation rows, and differ if the interval of their paired difference does not hold 0. Any other
difference counts only where the intervals of both values are apart, in size from 1% on. Two latencies were measured one after the other,
so they are compared only on one machine, and only if both measurements are valid. "Cannot tell" is not transitive, so a variant is ahead
in an objective if none of the others is measurably better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from paddleship.config.sections.sweep import Sweep
from paddleship.reports.verdict import Check
from paddleship.statistics.estimates import Difference, Interval
from paddleship.sweep import unmet
from paddleship.sweep.objectives import (
    OBJECTIVES,
    Name,
    against_next,
    cost,
    difference_text,
    in_parentheses,
    incomparable,
    score_difference,
    values,
)
from paddleship.sweep.variant import Figures, Missed

_SIZE_EFFECT = 0.01
_MOST_LISTED = 6
_NONE_MISSED: Mapping[int, Sequence[Missed]] = MappingProxyType({})


@dataclass(frozen=True)
class Choice:
    """`best` is the number of the chosen variant, None if none may be chosen, with the reason.

    `front` are the variants that no other one beats, by number; `refused` says which limit a variant is beyond.
    """

    best: int | None
    reason: str
    front: tuple[int, ...]
    refused: Mapping[int, str]
    check: Check


def compare(objective: str, one: Figures, other: Figures) -> Difference:
    """Whether `one` is better or worse than `other` in one objective, or neither."""
    if incomparable(objective, one, other):
        return Difference.CANNOT_TELL
    if objective == "size":
        return _difference(_around(one.size_bytes, _SIZE_EFFECT), _around(other.size_bytes, _SIZE_EFFECT))
    if objective == "latency":
        return _difference(one.p50_ms, other.p50_ms)
    if paired := score_difference(one, other):
        return Difference.BETTER if paired.low > 0 else Difference.WORSE if paired.high < 0 else Difference.CANNOT_TELL
    return _difference(_negative(one.score), _negative(other.score)) if one.score and other.score else Difference.CANNOT_TELL


def beats(one: Figures, other: Figures) -> bool:
    """Whether `one` is better in one objective and worse in none."""
    differences = [compare(objective, one, other) for objective in OBJECTIVES]
    return Difference.BETTER in differences and Difference.WORSE not in differences


def leaders(objective: str, among: Mapping[Name, Figures]) -> dict[Name, Figures]:
    """Those that none is measurably better than in an objective; all of them if the differences form a cycle.

    One whose figure is unknown or not valid is left out if another one has one.
    """
    known = {name: one for name, one in among.items() if math.isfinite(cost(objective)(one))} or dict(among)
    first = {
        name: one for name, one in known.items() if not any(compare(objective, other, one) == Difference.BETTER for other in known.values())
    }
    return first or known


def choose(variants: Mapping[int, Figures], settings: Sweep, *, missed: Mapping[int, Sequence[Missed]] = _NONE_MISSED) -> Choice:
    """Choose by `settings.choose`; among those that none is measurably better than in it, by the other objectives, and then by value.

    `missed` are the gates that variants missed which are not done: the next step is about them if none can be chosen.
    """
    beyond = {number: limit for number, figures in variants.items() if (limit := unmet.limit_beyond(figures, settings))}
    refused = {number: limit.text for number, limit in beyond.items()}
    allowed = {number: figures for number, figures in variants.items() if number not in beyond}
    advice = "" if allowed else unmet.advice(beyond, missed)
    check = Check.at_least("variants_within_limits", len(allowed), 1, advice=advice)
    if not allowed:
        return Choice(None, f"no variant can be chosen: {advice}", (), refused, check)
    order = [settings.choose, *(objective for objective in OBJECTIVES if objective != settings.choose)]
    best, reason = _decide(allowed, order) if len(allowed) > 1 else (next(iter(allowed)), "the only variant that can be chosen")
    return Choice(best, reason, _front(allowed), refused, check)


def _front(variants: Mapping[int, Figures]) -> tuple[int, ...]:
    """The variants that no other one beats. Undecided differences could form a cycle; then all are in the front."""
    front = tuple(number for number, one in variants.items() if not any(beats(other, one) for other in variants.values()))
    return front or tuple(variants)


def _decide(allowed: Mapping[int, Figures], order: Sequence[str]) -> tuple[int, str]:
    """The best variant by these objectives in turn, and why. The value decides where the last one leaves several."""
    left, reasons = dict(allowed), list[str]()
    for objective in order:
        near = leaders(objective, left)
        if len(near) == 1:
            (best,) = near
            return best, "; ".join([*reasons, _best_in(objective, best, left)])
        reasons.append(_alike_in(objective, near))
        left = near
    best = min(left, key=lambda number: [cost(objective)(left[number]) for objective in order])
    decisive = next((one for one in order if len({cost(one)(figures) for figures in left.values()}) > 1), None)
    return best, "; ".join([*reasons, f"{best} has the best {decisive} by value" if decisive else f"{best} is the first of them"])


def _best_in(objective: str, best: int, left: Mapping[int, Figures]) -> str:
    own, theirs, number = against_next(objective, left[best], {other: figures for other, figures in left.items() if other != best})
    if why := incomparable(objective, left[best], left[number]):
        return f"{best} is the only one whose {objective} can be compared ({why})"
    seen = in_parentheses(difference_text(objective, left[best], left[number]))
    return f"best in {objective}: {own} against {theirs} of variant {number}{seen}"


def _alike_in(objective: str, near: Mapping[int, Figures]) -> str:
    best, worst = (pick(near, key=lambda number: cost(objective)(near[number])) for pick in (min, max))
    if why := incomparable(objective, near[best], near[worst]):
        return f"in {objective}, {_listed(near)} are not compared, because {why}"
    own, theirs = values(objective, near[best], near[worst])
    if own == theirs:
        return f"in {objective}, {_listed(near)} have the same ({own})"
    seen = difference_text(objective, near[best], near[worst])
    return f"in {objective}, none is measurably better than {_listed(near)} ({own} to {theirs}{'; ' * bool(seen)}{seen})"


def _difference(one: Interval, other: Interval) -> Difference:
    """The difference of two values of which the lower one is better."""
    if one.high < other.low:
        return Difference.BETTER
    return Difference.WORSE if other.high < one.low else Difference.CANNOT_TELL


def _around(value: float, effect: float) -> Interval:
    return Interval(value, value * (1 - effect / 2), value * (1 + effect / 2))


def _negative(interval: Interval) -> Interval:
    return Interval(-interval.value, -interval.high, -interval.low)


def _listed(numbers: Mapping[int, Figures]) -> str:
    first, more = sorted(numbers)[:_MOST_LISTED], len(numbers) - _MOST_LISTED
    return ", ".join(map(str, first)) + (f" and {more} more" if more > 0 else "")
