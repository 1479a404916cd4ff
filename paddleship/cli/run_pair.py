"""Two runs that are compared: what each measured, and which of their figures do not compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paddleship.reports.report import Report
from paddleship.sweep.objectives import incomparable
from paddleship.sweep.variant import Figures
from paddleship.tracking.runs import Run

_NOT_COMPARED = "not compared"


@dataclass(frozen=True)
class RunPair:
    """Two runs with their figures; those of a run that measured no candidate are None."""

    one: Run
    other: Run
    first: Figures | None
    second: Figures | None

    @classmethod
    def of(cls, one: Run, other: Run, reports: tuple[Sequence[Report], Sequence[Report]]) -> RunPair:
        figures = (Figures.of(of_run, sweep=run.tags.get("sweep", "")) for run, of_run in zip((one, other), reports, strict=True))
        return cls(one, other, *figures)

    @property
    def benchmarks_differ(self) -> str:
        """Why no figure of the two benchmarks compares; empty if they do."""
        if self.one.tags.get("measured_on") != self.other.tags.get("measured_on"):
            return "measured on another machine"
        return "" if is_valid(self.one) and is_valid(self.other) else "a benchmark was disturbed"

    @property
    def latencies_differ(self) -> str:
        """Why latencies and speedups do not compare, in a few words: the answer has the whole reason. Empty if they do."""
        return self.benchmarks_differ or self._not_compared("latency")

    @property
    def scores_differ(self) -> str:
        """Why the scores do not compare, in a few words; empty if they do."""
        if self.one.tags.get("data_sha256") != self.other.tags.get("data_sha256"):
            return "on other rows"
        return self._not_compared("score")

    def _not_compared(self, objective: str) -> str:
        if self.first is None or self.second is None:
            return ""
        return _NOT_COMPARED if incomparable(objective, self.first, self.second) else ""


def is_valid(run: Run) -> bool:
    """Whether nothing disturbed the benchmark of a run."""
    return run.tags.get("benchmark_valid", "True") == "True"
