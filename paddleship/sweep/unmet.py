"""Why no variant can be chosen: the limits and the gates that were not met, how near the variants came, and the next step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paddleship.config.sections.sweep import Sweep
from paddleship.reports.figures import beside, limit
from paddleship.sweep.variant import Figures, Missed

NOT_VALID = "the speed is not valid, the machine was not free"


@dataclass(frozen=True)
class Beyond:
    """A limit of the sweep that a variant does not meet: what it is about, by how much, as text, and the next step."""

    about: str
    distance: float
    text: str
    step: str

    @classmethod
    def of(cls, key: str, distance: float, text: str, verb: str) -> Beyond:
        return cls(key, distance, text, f"{verb} {key}, or widen sweep.space")


def limit_beyond(figures: Figures, settings: Sweep) -> Beyond | None:
    """The first limit that a variant does not meet, a p50 that is not valid among them; None if there is none."""
    if (least := settings.min_score) is not None and (figures.score is None or figures.score.value < least):
        score = beside(figures.score.value, least) if figures.score else "unknown"
        distance = least - figures.score.value if figures.score else math.inf
        return Beyond.of("sweep.min_score", distance, f"{figures.score_name} {score} is below {limit(least)}", "lower")
    if (most := settings.max_p50_ms) is not None and not figures.valid:
        text = f"p50 {beside(figures.p50_ms.value, most)} ms does not meet {limit(most)} ms: {NOT_VALID}"
        return Beyond(NOT_VALID, figures.p50_ms.value - most, text, "measure again on an idle machine")
    if most is not None and figures.p50_ms.value > most:
        text = f"p50 {beside(figures.p50_ms.value, most)} ms is above {limit(most)} ms"
        return Beyond.of("sweep.max_p50_ms", figures.p50_ms.value - most, text, "raise")
    if (largest := settings.max_size_bytes) is not None and figures.size_bytes > largest:
        text = f"{figures.size_bytes:,} bytes are above {largest:,}"
        return Beyond.of("sweep.max_size_bytes", figures.size_bytes - largest, text, "raise")
    return None


def advice(beyond: Mapping[int, Beyond], missed: Mapping[int, Sequence[Missed]]) -> str:
    """A part for each limit and each gate: the best value that was reached, its variant, and the next step."""
    parts = [_of_limit(about, beyond) for about in dict.fromkeys(one.about for one in beyond.values())]
    gates = dict.fromkeys((gate.stage, gate.check.name) for of_variant in missed.values() for gate in of_variant)
    parts += [_of_gate(stage, name, missed) for stage, name in gates]
    return "; ".join(parts) or "no variant is done: see why each of them ended"


def _of_limit(about: str, beyond: Mapping[int, Beyond]) -> str:
    those = {number: one for number, one in beyond.items() if one.about == about}
    nearest = min(those, key=lambda number: those[number].distance)
    return f"{those[nearest].text} ({_which(nearest, len(those))}): {those[nearest].step}"


def _of_gate(stage: str, name: str, missed: Mapping[int, Sequence[Missed]]) -> str:
    checks = {number: gate.check for number, gates in missed.items() for gate in gates if (gate.stage, gate.check.name) == (stage, name)}
    nearest = min(checks, key=lambda number: _distance(checks[number].measured, checks[number].limit))
    check = checks[nearest]
    measured, wanted = check.texts
    step = f"{check.advice}, or widen sweep.space" if check.advice else "widen sweep.space"
    return f"{stage}: {name} is {measured} (limit {wanted}; {_which(nearest, len(checks))}): {step}"


def _distance(measured: object, limit: object) -> float:
    """How far a value is from its limit; infinite if one of them is no number."""
    numbers = [float(value) if isinstance(value, int | float) else math.nan for value in (measured, limit)]
    distance = abs(numbers[0] - numbers[1])
    return math.inf if math.isnan(distance) else distance


def _which(nearest: int, count: int) -> str:
    return f"variant {nearest}" + (f", the nearest of {count}" if count > 1 else "")
