"""Figures as text: in few digits, but never so few that two different figures look the same."""

from __future__ import annotations

_DIGITS, _MOST = 4, 17  # significant ones; 17 tell any two numbers of float64 apart


def limit(value: float) -> str:
    """A limit as somebody set it: 0.99999 is not 1."""
    return next(text for digits in range(_DIGITS, _MOST + 1) if float(text := f"{value:.{digits}g}") == value or digits == _MOST)


def beside(value: float, other: float) -> str:
    """A figure that is read beside another: with enough digits to be seen on the right side of it."""
    near = abs(value - other) < abs(other) * 10 ** (1 - _DIGITS)
    for digits in range(len(limit(other).strip("-0.").replace(".", "")) + 1 if near else _DIGITS, _MOST + 1):
        text = f"{value:.{digits}g}"
        if value == other or ((float(text) > other) == (value > other) and float(text) != other):
            return text
    return text
