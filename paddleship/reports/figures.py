"""Figures as text: in few digits, but never so few that two different figures look the same."""

from __future__ import annotations

from collections.abc import Sequence

_SEEN = 1e-4  # the least that four decimals show
_DIGITS, _MOST = 4, 17  # significant ones; 17 tell any two numbers of float64 apart


def limit(value: float) -> str:
    """A limit as somebody set it: 0.99999 is not 1, and a large whole number has separators."""
    if abs(value) >= 10**_DIGITS and float(value).is_integer():
        return f"{value:,.0f}"
    return next(text for digits in range(_DIGITS, _MOST + 1) if float(text := f"{value:.{digits}g}") == value or digits == _MOST)


def beside(value: float, other: float) -> str:
    """A figure that is read beside another: with enough digits to be seen on the right side of it."""
    near = abs(value - other) < abs(other) * 10 ** (1 - _DIGITS)
    for digits in range(len(limit(other).replace(",", "").strip("-0.").replace(".", "")) + 1 if near else _DIGITS, _MOST + 1):
        text = f"{value:.{digits}g}"
        if value == other or ((float(text) > other) == (value > other) and float(text) != other):
            break
    return f"{float(text):,.0f}" if "e+" in text else text


def number(value: float, digits: int = _DIGITS) -> str:
    """A figure in so many significant digits, and a large one in whole numbers with separators."""
    return f"{value:,.{digits}g}" if abs(value) < 10**digits else f"{value:,.0f}"


def distinct(one: float, other: float, digits: int = _DIGITS) -> tuple[str, str]:
    """Two figures that are compared: with enough digits to differ if they do."""
    for more in range(digits, _MOST + 1):
        texts = number(one, more), number(other, more)
        if one == other or texts[0] != texts[1]:
            break
    return texts


def column(values: Sequence[float], digits: int = _DIGITS) -> list[str]:
    """Figures of one column: all with so many significant digits that different ones differ, as far as a reader can use them."""
    for more in range(digits, digits + 4):
        texts = [number(value, more) for value in values]
        if len({*texts}) == len({*values}):
            break
    return texts


def change(value: float, low: float, high: float) -> str:
    """A difference of scores with its interval: with four decimals, or two digits where one of them would be read as 0."""
    digits = ".4f" if min((abs(number) for number in (value, low, high) if number), default=1) >= _SEEN else ".2g"
    return f"{value:+z{digits}}, 95% interval {low:+z{digits}} to {high:+z{digits}}"


def share(value: float) -> str:
    """A score up to 1 with four decimals, or more where it would be read as exactly 0 or 1."""
    text = f"{value:.4f}"
    return limit(value) if float(text) in (0, 1) and value != float(text) else text


def percent(value: float) -> str:
    """A share as a percentage with two decimals, or more where it would be read as exactly 0 or 100%."""
    text, end = f"{100 * value:.2f}", 0 if value < 0.5 else 100
    return f"{beside(100 * value, end) if float(text) == end and 100 * value != end else text}%"


def shares(one: float, other: float) -> tuple[str, str]:
    """Two scores that are compared: with four decimals, or more where they would look the same."""
    texts = share(one), share(other)
    return texts if one == other or texts[0] != texts[1] else distinct(one, other)
