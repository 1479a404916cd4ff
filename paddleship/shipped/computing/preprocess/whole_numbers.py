"""Whole numbers in full: from 2**53 on, float64 skips some, so a number that is read as a float may differ from what was written."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddleship.errors import RequestError
from paddleship.shipped.computing.preprocess.measures import Array

_FIRST_INEXACT = np.float64(2**53)  # of this type, because float16 has no such number
_INT64_END = 2.0**63


def is_exact(number: Any) -> bool:
    """Whether a number is no float, or so small that as a float it is the whole number that was written."""
    return not isinstance(number, float | np.floating) or abs(float(number)) < float(_FIRST_INEXACT)


def in_full(name: object, values: Any, array: Array, dtype: np.dtype[Any]) -> Array:
    """`array`, which numpy made of the values of an input of this dtype; int64 where large whole numbers became floats beside a float.

    Raises RequestError for a whole float of 2**53 or more that an integer dtype can hold. What no integer dtype can hold stays as it is.
    """
    if array.dtype.kind != "f" or dtype.kind not in "iu" or not (np.abs(array) >= _FIRST_INEXACT).any():
        return array
    items, held = np.asarray(values, dtype=object).ravel().tolist(), np.iinfo(dtype)
    if not all(_is_whole(item) and held.min <= item <= held.max for item in items):
        return array
    if lost := [item for item in items if not is_exact(item)]:
        cause = "has a number of 2**53 or more with a fraction or an exponent, which loses digits"
        raise RequestError(
            f"input {name!r} {cause} (read as {digits(lost[0])})", "write it as a whole number, without a fraction or an exponent"
        )
    return np.array([int(item) for item in items], np.int64).reshape(array.shape)


def digits(number: Any) -> str:
    """A number for people: all digits of an integer, and of a whole float that int64 can hold; six digits of others."""
    value = number.item() if isinstance(number, np.generic) else number
    return str(int(value)) if isinstance(value, int) or (value.is_integer() and abs(value) < _INT64_END) else f"{value:g}"


def _is_whole(item: Any) -> bool:
    return isinstance(item, int | np.integer) or (isinstance(item, float | np.floating) and item.is_integer())
