"""Why a row cannot be used, as fields, and the one message for all such rows of a reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paddleship.errors import DataError

_SHOWN = 3  # rows of a message


class RowFault(DataError):
    """One row that cannot be used. `reason` names row, column and value; `advice` is the next step."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason}: {advice}")
        self.reason, self.advice = reason, advice


def summary(faults: Sequence[RowFault]) -> DataError:
    """One error with the first faults and the number of the others; advice that they share is given once."""
    shown, more = faults[:_SHOWN], len(faults) - _SHOWN
    shared = len({fault.advice for fault in shown}) == 1
    reasons = [fault.reason if shared else str(fault) for fault in shown]
    others = [f"and {more:,} more rows cannot be used"] if more > 0 else []
    return DataError("; ".join([*reasons, *others]) + (f": {shown[0].advice}" if shared else ""))


def where(number: int, column: str, value: Any) -> str:
    """The start of a message about a row; slow for large values, so it is only made for errors."""
    return f"row {number} of data.reader: column {column!r} holds {short(value)}"


def short(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    text = repr(value.tolist() if isinstance(value, np.ndarray) else value)
    return text if len(text) <= 60 else text[:60] + " …"
