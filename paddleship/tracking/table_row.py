"""What the table of MLflow's page shows of a candidate beside what was measured of it.

MLflow rounds metrics, and does not show their intervals, so what must be read in full is text in a tag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paddleship.pages import first_screen
from paddleship.pages.first_screen import FirstScreen
from paddleship.reports import figures, units
from paddleship.reports.order import in_order
from paddleship.reports.report import Report
from paddleship.reports.statuses import Status
from paddleship.sweep.variant import Figures, SizeOf

_SIZE_OF = {SizeOf.FILES: "files", SizeOf.IMAGE: "image"}


@dataclass(frozen=True)
class TableRow:
    """What a run says of all of its candidates: its figures if it measured any, and its verdict."""

    measured: Figures | None
    screen: FirstScreen

    @classmethod
    def of(cls, reports: Sequence[Report], *, failure: str | None) -> TableRow:
        ordered = in_order(reports)
        return cls(Figures.of(ordered), first_screen.of_run(ordered, failure=failure))

    def numbers(self, row: Mapping[str, Any]) -> dict[str, float | None]:
        """The metrics that runs are ordered by."""
        one = self.measured
        return {
            "score": one.score.value if one and one.score else None,
            "test_score": one.test_score if one else None,
            "p50_us": float(f"{1000 * row['p50_ms']:.3g}") if row.get("p50_ms") else None,
        }

    def texts(self, row: Mapping[str, Any]) -> dict[str, str]:
        """The tags that are columns: score and speedup with intervals, size, and verdict."""
        return {"score": self._score(), "speedup": _speedup(row), "size": self._size(row), "verdict": self._verdict(row)}

    def _score(self) -> str:
        one = self.measured
        if one is None or one.score is None:
            return "–"
        value, low, high = map(figures.share, one.score)
        return f"{value} ({low} to {high})" if one.score_has_interval else value

    def _size(self, row: Mapping[str, Any]) -> str:
        if self.measured and row.get("winner"):
            return f"{units.size(self.measured.size_bytes)} {_SIZE_OF[self.measured.size_of]}"
        return f"{units.size(row['file_bytes'])} {_SIZE_OF[SizeOf.FILES]}" if "file_bytes" in row else "–"

    def _verdict(self, row: Mapping[str, Any]) -> str:
        """Of the winner, that of the run; of another candidate, whether it was measured."""
        measured = row.get("status") == Status.MEASURED
        if row.get("winner") or (measured and self.screen.usable and not self.screen.trusted):
            return f"{'✓' if self.screen.trusted else '⚠' if self.screen.usable else '✗'} {self.screen.mark}"
        return str(row.get("status", "–"))


def _speedup(row: Mapping[str, Any]) -> str:
    if not row.get("speedup"):
        return "–"
    low, high = (row.get(key) for key in ("speedup_low", "speedup_high"))
    return units.times(row["speedup"]) + (f" ({units.three(low)} to {units.three(high)})" if low and high else "")
