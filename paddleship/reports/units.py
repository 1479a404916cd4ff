"""Figures with the unit in which three digits are enough."""

from __future__ import annotations

from paddleship.reports.figures import distinct


def duration(ms: float) -> str:
    """A time in µs, ms or s."""
    factor, unit = _unit(ms)
    return f"{three(factor * ms)}\N{NO-BREAK SPACE}{unit}"


def durations(one: float, other: float) -> tuple[str, str]:
    """Two times in ms that are compared: with three digits, or more where they would look the same."""
    texts = duration(one), duration(other)
    if one == other or texts[0] != texts[1]:
        return texts
    factor, unit = _unit(one)
    own, theirs = distinct(factor * one, factor * other, 3)
    return f"{own}\N{NO-BREAK SPACE}{unit}", f"{theirs}\N{NO-BREAK SPACE}{unit}"


def megabytes(count: float) -> str:
    return f"{three(count / 1e6)}\N{NO-BREAK SPACE}MB"


def times(value: float) -> str:
    return f"{three(value)}×"


def three(value: float) -> str:
    """A number in three significant digits, and a large one in whole numbers with separators."""
    return f"{value:#.3g}".rstrip(".") if abs(value) < 999.5 else f"{value:,.0f}"


def _unit(ms: float) -> tuple[float, str]:
    """What a time in ms is multiplied by, and the unit in which it then is."""
    return (1000, "µs") if ms < 0.9995 else (1, "ms") if ms < 999.5 else (1e-3, "s")
