"""Compare variants by score, latency and size, find those that no other one beats, and choose one of them.

Two scores are compared on the same validation rows, and differ if the interval of their paired difference does not hold 0. Any other
difference counts only where the intervals of both values are apart, in size from 1% on. Two latencies were measured one after the other,
so they are compared only on one machine, and only if both measurements are valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paddleship.config.sections.sweep import Sweep
from paddleship.reports.figures import beside, limit
from paddleship.reports.verdict import Check
from paddleship.statistics.estimates import Difference, Interval
from paddleship.sweep.objectives import OBJECTIVES, against_next, cost, difference_text, score_difference, values
from paddleship.sweep.variant import Figures

_SIZE_EFFECT = 0.01


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
    if objective == "size":
        return _difference(_around(one.size_bytes, _SIZE_EFFECT), _around(other.size_bytes, _SIZE_EFFECT))
    if objective == "latency":
        comparable = one.valid and other.valid and one.measured_on == other.measured_on
        return _difference(one.p50_ms, other.p50_ms) if comparable else Difference.CANNOT_TELL
    same = (one.score_name, one.data_sha256) == (other.score_name, other.data_sha256)
    if one.score is None or other.score is None or not same:
        return Difference.CANNOT_TELL
    if paired := score_difference(one, other):
        return Difference.BETTER if paired.low > 0 else Difference.WORSE if paired.high < 0 else Difference.CANNOT_TELL
    return _difference(_negative(one.score), _negative(other.score))


def beats(one: Figures, other: Figures) -> bool:
    """Whether `one` is better in one objective and worse in none."""
    differences = [compare(objective, one, other) for objective in OBJECTIVES]
    return Difference.BETTER in differences and Difference.WORSE not in differences


def choose(variants: Mapping[int, Figures], settings: Sweep) -> Choice:
    """Choose from the front by `settings.choose`; among those without a measurable difference in it, by the other objectives."""
    refused = {number: reason for number, figures in variants.items() if (reason := _refusal(figures, settings))}
    allowed = {number: figures for number, figures in variants.items() if number not in refused}
    front = _front(variants)
    limits = "; ".join(f"{number}: {reason}" for number, reason in refused.items()) or "no variant is done"
    advice = f"raise the limits in sweep, or widen sweep.space ({limits})"
    check = Check.at_least("variants_within_limits", len(allowed), 1, advice=advice)
    if not allowed:
        return Choice(None, str(check), front, refused, check)
    among = {number: allowed[number] for number in _front(allowed)}
    order = [settings.choose, *(objective for objective in OBJECTIVES if objective != settings.choose)]
    best, reason = _decide(among, order) if len(among) > 1 else _unbeaten(next(iter(among)), allowed, order)
    return Choice(best, f"{reason}{_passed_over(best, allowed, settings.choose)}", front, refused, check)


def _front(variants: Mapping[int, Figures]) -> tuple[int, ...]:
    """The variants that no other one beats. Undecided differences could form a cycle; then all are in the front."""
    front = tuple(number for number, one in variants.items() if not any(beats(other, one) for other in variants.values()))
    return front or tuple(variants)


def _unbeaten(best: int, allowed: Mapping[int, Figures], order: Sequence[str]) -> tuple[int, str]:
    """The only variant that no other one beats, and in what it is better than every other one."""
    if len(allowed) == 1:
        return best, "the only variant that can be chosen"
    others = [figures for number, figures in allowed.items() if number != best]
    better = [one for one in order if all(compare(one, allowed[best], other) == Difference.BETTER for other in others)]
    return best, "; ".join(_best_in(one, best, allowed) for one in better) or "the only variant that no other one beats"


def _decide(among: Mapping[int, Figures], order: Sequence[str]) -> tuple[int, str]:
    """The best variant by these objectives in turn, and why. The value decides where the last one leaves several."""
    left, reasons = dict(among), list[str]()
    for objective in order:
        best = min(left, key=lambda number: cost(objective)(left[number]))
        near = {number: figures for number, figures in left.items() if compare(objective, left[best], figures) != Difference.BETTER}
        if len(near) == 1:
            return best, "; ".join([*reasons, _best_in(objective, best, left)])
        reasons.append(_alike_in(objective, best, near))
        left = near
    best = min(left, key=lambda number: [cost(objective)(left[number]) for objective in order])
    return best, f"{'; '.join(reasons)}; {best} has the best {order[0]} by value"


def _passed_over(best: int, allowed: Mapping[int, Figures], objective: str) -> str:
    """Why the variant with the best value in the objective was not chosen; empty if it was, or if no other one beats it."""
    top = min(allowed, key=lambda number: cost(objective)(allowed[number]))
    if cost(objective)(allowed[top]) == cost(objective)(allowed[best]) or top in _front(allowed):
        return ""
    winner = next(number for number in allowed if beats(allowed[number], allowed[top]))
    own, theirs = values(objective, allowed[top], allowed[winner])
    worse = [one for one in OBJECTIVES if compare(one, allowed[winner], allowed[top]) == Difference.BETTER]
    text = f"; variant {top} has {objective} {own}, not measurably better than {theirs} of variant {winner}"
    text += difference_text(objective, allowed[top], allowed[winner])
    parts = [f"{one} ({' against '.join(values(one, allowed[top], allowed[winner]))})" for one in worse]
    return f"{text}, and is worse in {' and '.join(parts)}"


def _best_in(objective: str, best: int, left: Mapping[int, Figures]) -> str:
    own, theirs, number = against_next(objective, left[best], {other: figures for other, figures in left.items() if other != best})
    return f"best in {objective}: {own} against {theirs} of variant {number}{difference_text(objective, left[best], left[number])}"


def _alike_in(objective: str, best: int, near: Mapping[int, Figures]) -> str:
    worst = max(near, key=lambda number: cost(objective)(near[number]))
    own, theirs = values(objective, near[best], near[worst])
    if own == theirs:
        return f"in {objective}, {_listed(near)} have the same ({own})"
    return f"in {objective}, {_listed(near)} cannot be told apart ({own} to {theirs})"


def _refusal(figures: Figures, settings: Sweep) -> str:
    """The limit that a variant is beyond; empty if there is none."""
    if settings.min_score is not None and (figures.score is None or figures.score.value < settings.min_score):
        score = beside(figures.score.value, settings.min_score) if figures.score else "unknown"
        return f"{figures.score_name} {score} is below {limit(settings.min_score)}"
    if settings.max_p50_ms is not None and figures.p50_ms.value > settings.max_p50_ms:
        return f"p50 {beside(figures.p50_ms.value, settings.max_p50_ms)} ms is above {limit(settings.max_p50_ms)} ms"
    if settings.max_size_bytes is not None and figures.size_bytes > settings.max_size_bytes:
        return f"{figures.size_bytes:,} bytes are above {settings.max_size_bytes:,}"
    return ""


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
    return ", ".join(map(str, sorted(numbers)))
