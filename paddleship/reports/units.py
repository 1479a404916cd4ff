"""Figures with the unit in which three digits are enough."""

from __future__ import annotations

from paddleship.reports.figures import distinct

_TIMES = ((0.9995, 1000.0, "µs"), (999.5, 1.0, "ms"), (float("inf"), 1e-3, "s"))  # up to so many ms: the factor and the unit
_SIZES = ((999_500, 1e-3, "kB"), (999_500_000, 1e-6, "MB"), (float("inf"), 1e-9, "GB"))  # up to so many bytes
_Units = tuple[tuple[float, float, str], ...]


def duration(ms: float) -> str:
    """A time in µs, ms or s."""
    return _text(ms, _TIMES)


def durations(one: float, other: float) -> tuple[str, str]:
    """Two times in ms that are compared: with three digits, or more where they would look the same."""
    return _pair(one, other, _TIMES)


def size(count: float) -> str:
    """A number of bytes in kB, MB or GB."""
    return _text(count, _SIZES)


def sizes(one: float, other: float) -> tuple[str, str]:
    """Two numbers of bytes that are compared: with three digits, or more where they would look the same."""
    return _pair(one, other, _SIZES)


def times(value: float) -> str:
    return f"{three(value)}×"


def three(value: float) -> str:
    """A number in three significant digits, and a large one in whole numbers with separators."""
    return f"{value:#.3g}".rstrip(".") if abs(value) < 999.5 else f"{value:,.0f}"


def threes(one: float, other: float) -> tuple[str, str]:
    """Two numbers that are compared: in three significant digits, or more where they would look the same."""
    texts = three(one), three(other)
    return texts if one == other or texts[0] != texts[1] else distinct(one, other, 3)


def _text(value: float, units: _Units) -> str:
    factor, unit = _unit(value, units)
    return f"{three(factor * value)}\N{NO-BREAK SPACE}{unit}"


def _pair(one: float, other: float, units: _Units) -> tuple[str, str]:
    texts = _text(one, units), _text(other, units)
    if one == other or texts[0] != texts[1]:
        return texts
    factor, unit = _unit(one, units)
    own, theirs = distinct(factor * one, factor * other, 3)
    return f"{own}\N{NO-BREAK SPACE}{unit}", f"{theirs}\N{NO-BREAK SPACE}{unit}"


def _unit(value: float, units: _Units) -> tuple[float, str]:
    return next((factor, unit) for most, factor, unit in units if value <= most)
