"""Missing numbers that the preprocess fills: how many there are in each column, and that every column has known numbers to fill from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddleship.config.sections.data import Data
from paddleship.data import tables
from paddleship.errors import DataError
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.preprocess import Preprocess


@dataclass(frozen=True)
class MissingNumbers:
    """How many of `rows` lack their number in each column whose missing numbers are filled; a list has a name for each of its numbers."""

    rows: int
    columns: dict[str, int]

    @property
    def filled(self) -> int:
        return sum(self.columns.values())

    @property
    def facts(self) -> dict[str, Any]:
        return {name: {"rows": count, "share": count / self.rows} for name, count in self.columns.items()}

    def findings(self) -> list[Finding]:
        """A note if numbers are filled."""
        if not self.filled:
            return []
        most = sorted(((count, name) for name, count in self.columns.items() if count), key=lambda item: -item[0])
        named = ", ".join(f"{count:,} in {name!r} ({count / self.rows:.1%} of the rows)" for count, name in most)
        advice = "no action is needed; missing in preprocess says what they are filled with"
        return [Finding("filled-numbers", "note", f"{self.filled:,} missing numbers are filled: {named}", advice)]


def count(preprocess: Preprocess, parts: Sequence[Mapping[str, Sequence[Any]]], data: Data) -> MissingNumbers:
    """The missing numbers in the columns of all parts."""
    rows, columns = 0, dict[str, int]()
    for column in preprocess.missing:
        flags = _flags([value for part in parts for value in part[column]])
        rows, names = len(flags), _names(column, flags.shape[1], data)
        columns |= dict(zip(names, flags.sum(axis=0).tolist(), strict=True))
    return MissingNumbers(rows, columns)


def require_known(preprocess: Preprocess, training: Mapping[str, Sequence[Any]], data: Data) -> None:
    """Raise DataError if all training rows lack a number, so that there is no mean and no median of it."""
    for column in preprocess.missing:
        flags = _flags(training[column])
        names = _names(column, flags.shape[1], data)
        if unknown := [name for position, name in enumerate(names) if flags[:, position].all()]:
            raise DataError(
                f"column {unknown[0]!r} has no number in any of the {len(flags):,} training rows, so there is nothing to fill it with: "
                "correct the data, or leave the column out"
            )


def _flags(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Which numbers are missing, by row and position."""
    return np.isnan(np.asarray(values, np.float64)).reshape(len(values), -1)


def _names(column: str, size: int, data: Data) -> Sequence[str]:
    """The name of each number of a column."""
    return tables.vectors(data).get(column) or ([column] if size == 1 else [f"{column}[{position}]" for position in range(size)])
