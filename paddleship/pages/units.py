"""Figures with the unit in which three digits are enough."""

from __future__ import annotations


def duration(ms: float) -> str:
    """A time in µs, ms or s."""
    value, unit = (1000 * ms, "µs") if ms < 0.9995 else (ms, "ms") if ms < 999.5 else (ms / 1000, "s")
    return f"{three(value)}\N{NO-BREAK SPACE}{unit}"


def megabytes(count: float) -> str:
    return f"{three(count / 1e6)}\N{NO-BREAK SPACE}MB"


def times(value: float) -> str:
    return f"{three(value)}×"


def three(value: float) -> str:
    """A number in three significant digits, and a large one in whole numbers with separators."""
    return f"{value:#.3g}".rstrip(".") if abs(value) < 999.5 else f"{value:,.0f}"
