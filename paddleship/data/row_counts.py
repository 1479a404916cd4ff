"""How many raw rows were kept, and why the others were dropped."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from paddleship.data.rounding import Rounding
from paddleship.reports.finding import Finding, Severity


@dataclass
class RowCounts:
    """Counts of raw rows. `empty` has the dropped rows by the first column that held None or an empty text."""

    rows: int = 0
    kept: int = 0
    repeated: int = 0
    contradictory: int = 0
    empty: Counter[str] = field(default_factory=Counter)
    rounding: Rounding = field(default_factory=Rounding)

    @property
    def unusable(self) -> int:
        return self.empty.total() + self.contradictory

    def __str__(self) -> str:
        text = f"{self.kept:,} rows of {self.rows:,}, {self.repeated:,} repeat{'s' * (self.repeated != 1)}"
        return f"{text} and {self.unusable:,} unusable row{'s' * (self.unusable != 1)} dropped" if self.unusable else f"{text} dropped"

    def facts(self) -> dict[str, Any]:
        return {
            "empty": dict(self.empty),
            "repeated": self.repeated,
            "contradictory": self.contradictory,
            "rounding": self.rounding.facts(),
        }

    def findings(self, most: float) -> list[Finding]:
        """Warnings if more than the share `most` of the rows is unusable, or of values becomes equal; notes if fewer do."""
        rounded = self.rounding.findings(most)
        if not self.unusable:
            return rounded
        share = self.unusable / self.rows
        reasons = [f"{count:,} without a value in {column!r}" for column, count in self.empty.most_common()]
        reasons += [f"{self.contradictory:,} whose inputs have several labels"] if self.contradictory else []
        message = f"{self.unusable:,} of {self.rows:,} rows ({share:.1%}) are dropped: {', '.join(reasons)}"
        severity: Severity = "warning" if share > most else "note"
        return [
            Finding("unusable-rows", severity, message, "check what data.reader yields for them, or raise data.unusable_share"),
            *rounded,
        ]
