"""Rows and values as text for people, cut to what a page has room for."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddleship.data.dataset import Rows

_SHOWN = 120  # characters of a value


def of_row(rows: Rows, index: int) -> dict[str, str]:
    """The value of each column of one row."""
    return {name: of_value(values[index]) for name, values in rows.columns.items()}


def of_value(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    array = np.asarray(value)
    if array.dtype.kind == "f":
        array = np.array([float(f"{number:.5g}") for number in array.ravel()]).reshape(array.shape)
    text = str(array.item() if array.size == 1 else value if isinstance(value, str) else array.tolist())
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
