"""Compare variants by score, latency and size, find those that no other one beats, and choose one of them.

Two scores are compared on the same validation rows, and differ if the interval of their paired difference does not hold 0. Any other
difference counts only where the intervals of both values are apart, in size from 1% on. Two latencies were measured one after the other,
so they are compared only on one machine, and only if both measurements are valid. "Cannot tell" is not transitive, so a variant is ahead
in an objective if none of those that it is compared with is measurably better.
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
    compared,
    cost,
    difference_text,
    in_parentheses,
    incomparable,
    listed,
    score_difference,
    values,
)
from paddleship.sweep.variant import Figures, Missed

_SIZE_EFFECT = 0.01
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
    """Whether `one` is better: measurably in one objective, worse in none, and compared in each that they have.

    Where no difference in score shows, its score must not be lower by value: a worse model is not better for being smaller.
    """
    objectives = [objective for objective in OBJECTIVES if objective != "score" or one.score or other.score]
    if any(incomparable(objective, one, other) for objective in objectives):
        return False
    differences = [compare(objective, one, other) for objective in objectives]
    lower = compare("score", one, other) != Difference.BETTER and cost("score")(one) > cost("score")(other)
    return Difference.BETTER in differences and Difference.WORSE not in differences and not lower


def leaders(objective: str, among: Mapping[Name, Figures]) -> dict[Name, Figures]:
    """Those that none is measurably better than in an objective; all of them if the differences form a cycle.

    One that is not compared with those that are compared with each other is left out, and so is a figure that is unknown or not valid.
    """
    known = _judged(objective, among)
    first = {
        name: one for name, one in known.items() if not any(compare(objective, other, one) == Difference.BETTER for other in known.values())
    }
    return first or known


def _judged(objective: str, among: Mapping[Name, Figures]) -> dict[Name, Figures]:
    """Those that are compared with each other in an objective; without such a group, those whose figure is known, or all."""
    known = {name: one for name, one in among.items() if math.isfinite(cost(objective)(one))}
    return compared(objective, among) or known or dict(among)


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
        of_those = f"of {_listed(left)}, which are left, " if len(left) < len(allowed) else ""
        if len(near) == 1:
            (best,) = near
            return best, "; ".join([*reasons, _best_in(objective, best, left, of_those)])
        reasons.append(_alike_in(objective, near, left, " of those left" if of_those else ""))
        left = near
    best, why = _first_by_value(left, order, all_are_left=len(left) == len(allowed))
    return best, "; ".join([*reasons, *why])


def _first_by_value(left: Mapping[int, Figures], order: Sequence[str], *, all_are_left: bool) -> tuple[int, list[str]]:
    """The best by the values of what was compared with each other, and why; the first of them if these are equal."""
    reasons = list[str]()
    for objective in order:
        least = min(map(cost(objective), left.values()))
        near = {number: one for number, one in left.items() if cost(objective)(one) == least}
        if len(near) == len(left) or len(compared(objective, left)) < len(left):
            continue
        of_those = "" if all_are_left else f"of {_listed(left)}, which are left, "
        reasons.append(f"{of_those}{_listed(near)} {'has' if len(near) == 1 else 'have'} the best {objective} by value")
        left, all_are_left = near, False
    best = min(left)
    return best, reasons if len(left) == 1 else [
        *reasons,
        f"nothing that was compared tells {_listed(left)} apart, and {best} is the first",
    ]


def _best_in(objective: str, best: int, left: Mapping[int, Figures], of_those: str) -> str:
    others = {number: one for number, one in _judged(objective, left).items() if number != best}
    if not others:
        why = _why_apart(objective, left[best], [one for number, one in left.items() if number != best])
        return f"{of_those}{best} is the only one whose {objective} can be compared ({why})"
    own, theirs, number = against_next(objective, left[best], others)
    seen = in_parentheses(difference_text(objective, left[best], left[number]))
    subject = f"{of_those}{best} is " if of_those else ""
    return f"{subject}best in {objective}: {own} against {theirs} of variant {number}{seen}{_apart(objective, best, left)}"


def _alike_in(objective: str, near: Mapping[int, Figures], left: Mapping[int, Figures], of_left: str) -> str:
    if len(compared(objective, near)) < len(near):
        whys = [_why_apart(objective, one, [other for other in near.values() if other is not one]) for one in near.values()]
        return f"in {objective}, {_listed(near)} are not compared with each other, because {next(filter(None, whys))}"
    best, worst = (pick(near, key=lambda number: cost(objective)(near[number])) for pick in (min, max))
    own, theirs = values(objective, near[best], near[worst])
    apart = _apart(objective, best, left)
    if own == theirs:
        same = "have the same" if len(near) == len(_judged(objective, left)) else f"share the best{of_left}"
        return f"in {objective}, {_listed(near)} {same} ({own}){apart}"
    seen = difference_text(objective, near[best], near[worst])
    return f"in {objective}, none{of_left} is measurably better than {_listed(near)} ({own} to {theirs}{'; ' * bool(seen)}{seen}){apart}"


def _apart(objective: str, best: int, left: Mapping[int, Figures]) -> str:
    """Which of those that are left were not compared with the best one, and why, as the end of a sentence; empty if all were."""
    apart = {number: one for number, one in left.items() if number not in _judged(objective, left)}
    verb = "is" if len(apart) == 1 else "are"
    return f" ({_listed(apart)} {verb} not compared: {_why_apart(objective, left[best], [*apart.values()])})" if apart else ""


def _why_apart(objective: str, one: Figures, others: Sequence[Figures]) -> str:
    return " and ".join(dict.fromkeys(filter(None, (incomparable(objective, one, other) for other in others))))


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
    return listed([str(number) for number in sorted(numbers)])
