"""Values that differ as they were read and are equal in the model's dtype, such as milliseconds since 1970 in float32.

A column is reported if more than a share of its different values become equal, and if that can matter: the values are whole numbers, such
as ids and times, or lie close together compared with their variation. It stops `prepare` if nearly nothing of the column is left, or if
more than half of the different rows become equal: what would be trained is then not the data that was read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paddleship.data.row_validation import ValidRow
from paddleship.errors import DataError
from paddleship.reports.finding import Finding, Severity

_MOST_ELEMENTS = 4_000_000  # of a column that are compared; rows are left out in blocks, because neighbours are often close
_BLOCK = 1_000  # rows
_COARSE = 1e-4  # spacing in standard deviations from which values that are no whole numbers count
_FEW_LEVELS = 1e-3  # the same, from which a column that loses most of its values stops prepare
_MOST_ROWS, _MOST_VALUES = 0.5, 0.9  # shares that become equal and stop prepare
_ADVICE = "declare float64 for it in model.inputs, or let data.reader subtract an offset or scale the values"
_LABEL_ADVICE = "labels are stored in this dtype: let data.reader subtract an offset from them, or scale them"


@dataclass(frozen=True)
class RoundedColumn:
    """Different values of a column (at one `position` of its lists) before and after the cast; `spacing` is that of the dtype there."""

    column: str
    position: int | None
    dtype: str
    before: int
    after: int
    largest: float
    spacing: float
    levels: float  # spacing in standard deviations of the values
    whole: bool
    label: bool = False

    @property
    def advice(self) -> str:
        return _LABEL_ADVICE if self.label else _ADVICE

    @property
    def lost_share(self) -> float:
        return 1 - self.after / self.before

    def __str__(self) -> str:
        position = f" (position {self.position})" if self.position is not None else ""
        return (
            f"column {self.column!r}{position} has {self.before:,} different values, of which {self.dtype} keeps {self.after:,}: at "
            f"{self.largest:.4g}, its values are {self.spacing:,.6g} apart"
        )


@dataclass(frozen=True)
class Rounding:
    """How many different rows there were as they were read, how many are equal in the model's dtypes, and the columns that lose values."""

    rows: int = 0
    merged: int = 0
    columns: tuple[RoundedColumn, ...] = ()

    def require_most(self) -> None:
        """Raise DataError if more than half of the rows, or nearly all values of a column, become equal."""
        worst = max(self.columns, key=lambda column: column.lost_share, default=None)
        if worst and self.merged > _MOST_ROWS * self.rows:
            raise DataError(
                f"{self.merged:,} of {self.rows:,} different rows become equal to another in the model's dtype; {worst}: {worst.advice}"
            )
        for column in self.columns:
            if column.lost_share >= _MOST_VALUES and column.levels >= _FEW_LEVELS:
                raise DataError(f"{column}: {column.advice}")

    def findings(self, most: float) -> list[Finding]:
        """A warning if more than the share `most` of the rows, or of a column's values, become equal; a note for fewer rows."""
        lossy = [column for column in self.columns if column.lost_share > most and (column.whole or column.levels >= _COARSE)]
        if not self.merged and not lossy:
            return []
        severity: Severity = "warning" if lossy or self.merged > most * self.rows else "note"
        named = lossy or sorted(self.columns, key=lambda column: -column.lost_share)[:1]
        rows = f"{self.merged:,} of {self.rows:,} different rows become equal to another in the model's dtype"
        return [Finding("rounded-values", severity, "; ".join([rows, *map(str, named)]), named[0].advice if named else _ADVICE)]

    def facts(self) -> dict[str, Any]:
        return {"rows": self.rows, "merged": self.merged, "columns": [str(column) for column in self.columns]}


class RoundingCounter:
    """Compares each row as it was read with the same row in the model's dtypes; `vectors` names the columns that a list is made of."""

    def __init__(self, names: Sequence[str], rows: int, vectors: Mapping[str, Sequence[str]] | None = None) -> None:
        self._names, self._rows, self._label, self._vectors = names, rows, "", vectors or {}
        self._pairs: dict[str, list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]] = defaultdict(list)

    def add(self, number: int, row: ValidRow) -> bool:
        """Whether the cast changed a value of the row."""
        changed = False
        for name, read, cast in zip(self._names, row.read, row.values, strict=True):
            if not isinstance(cast, np.ndarray) or cast is read or np.can_cast(np.asarray(read).dtype, cast.dtype, "safe"):
                continue
            changed |= not np.array_equal(np.asarray(read), cast.astype(np.asarray(read).dtype))
            if self._is_compared(number, cast):
                self._pairs[name].append((np.asarray(read), cast))
        return changed

    def _is_compared(self, number: int, cast: np.ndarray[Any, Any]) -> bool:
        return (number // _BLOCK) % max(1, -(-self._rows * cast.size // _MOST_ELEMENTS)) == 0

    def add_label(self, number: int, name: str, value: Any, label: Any) -> None:
        """Compare a label as it was read with the label as it is stored, if that is a float."""
        if not isinstance(label, np.ndarray) or label.dtype.kind != "f":
            return
        self._label, read = name, np.asarray(value)
        read = read.astype(np.float64) if read.dtype.kind not in "biuf" else read
        if not np.can_cast(read.dtype, label.dtype, "safe") and self._is_compared(number, label):
            self._pairs[name].append((read, label))

    def result(self, different: int, left: int) -> Rounding:
        columns = [
            replace(column, label=name == self._label)
            for name, pairs in self._pairs.items()
            for column in _columns(name, pairs, self._vectors.get(name, ()))
        ]
        return Rounding(different, different - left, tuple(columns))


def _columns(
    name: str, pairs: Sequence[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]], made_of: Sequence[str] = ()
) -> list[RoundedColumn]:
    """Those with a loss: one for each position of lists of one length, called as in `made_of`, one for all elements otherwise."""
    lists = pairs[0][0].ndim == 1 and len({read.shape for read, _ in pairs}) == 1
    if not lists:
        pairs = [(read.ravel(), cast.ravel()) for read, cast in pairs]
        columns = [_column(name, None, np.concatenate([read for read, _ in pairs]), np.concatenate([cast for _, cast in pairs]))]
    else:
        read, cast = np.stack([read for read, _ in pairs]), np.stack([cast for _, cast in pairs])
        columns = [
            _column(made_of[position] if made_of else name, None if made_of else position, read[:, position], cast[:, position])
            for position in range(read.shape[1])
        ]
    return [column for column in columns if column.after < column.before]


def _column(name: str, position: int | None, read: np.ndarray[Any, Any], cast: np.ndarray[Any, Any]) -> RoundedColumn:
    largest = np.abs(cast).max()
    spacing = float(np.spacing(largest)) if cast.dtype.kind == "f" else 1.0
    deviation = float(read.astype(np.float64).std())
    return RoundedColumn(
        column=name,
        position=position,
        dtype=cast.dtype.name,
        before=len(np.unique(read)),
        after=len(np.unique(cast)),
        largest=float(largest),
        spacing=spacing,
        levels=spacing / deviation if deviation else 0.0,
        whole=bool((read == np.round(read)).all()),
    )
