"""How many rows have a value of which only the beginning is read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from paddleship.data.dataset import Rows
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.preprocess import Preprocess

_MUCH = 0.05  # share of the rows above which a finding says so


@dataclass(frozen=True)
class Truncation:
    """`rows` of `total` are truncated; `longest` has the largest length of a truncated value, and how much of it is read, by column."""

    rows: int
    total: int
    longest: dict[str, tuple[int, int]]

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "share": self.rows / self.total,
            "longest": {column: {"length": length, "kept": kept} for column, (length, kept) in self.longest.items()},
        }

    def findings(self) -> list[Finding]:
        """A note if many rows are truncated."""
        if self.rows <= _MUCH * self.total:
            return []
        values = self.longest.items()
        lengths = ", ".join(f"{column!r} has up to {length:,}, of which {kept:,} are read" for column, (length, kept) in values)
        message = f"{self.rows:,} of {self.total:,} rows ({self.rows / self.total:.1%}) are truncated: {lengths}"
        return [Finding("truncated-rows", "note", message, "raise max_length in preprocess if the ends of texts matter")]


def find(preprocess: Preprocess, parts: Iterable[Rows]) -> Truncation:
    """The truncated rows of all parts."""
    longest: dict[str, tuple[int, int]] = {}
    rows = total = 0
    for part in parts:
        cuts = preprocess.cuts(part.columns)
        for cut in cuts:
            longest[cut["input"]] = max(longest.get(cut["input"], (0, 0)), (cut["length"], cut["kept"]))
        rows, total = rows + len({cut["row"] for cut in cuts}), total + len(part)
    return Truncation(rows, total, longest)
