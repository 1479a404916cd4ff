"""Who takes part in a benchmark: the baselines and every proven candidate; how each is loaded, and all that is known of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddleship.benchmark import result_table, system_metrics
from paddleship.benchmark.comparison import Comparison
from paddleship.config import catalogue
from paddleship.config.params import Params
from paddleship.errors import CandidateError
from paddleship.image import footprint
from paddleship.lineage import custody
from paddleship.model import eager
from paddleship.reports.statuses import Status
from paddleship.shipped import runtimes
from paddleship.shipped.common.candidate import FILE, Candidate
from paddleship.shipped.common.spec import TensorSpec
from paddleship.shipped.runtimes import registry
from paddleship.system.isolate import Load

BASELINES = ("eager", "to_static")


@dataclass(frozen=True)
class Participants:
    """Their names in the order of the race; `proven` is what `verify` found of each candidate."""

    params: Params
    proven: Mapping[str, Mapping[str, Any]]

    def __iter__(self) -> Iterator[str]:
        return iter((*BASELINES, *self.proven))

    def require_proven(self) -> None:
        """Raise CandidateError where a candidate is not the one that was proven; one whose files are lost is a failed row of the table."""
        for name in self.proven:
            if (self.folder(name) / FILE).exists():
                custody.require_proven(Candidate.read(self.folder(name)), self.proven)

    def folder(self, name: str) -> Path:
        """Where the files of a candidate lie; of a baseline, the checkpoint."""
        paths = self.params.paths
        return Path(paths.checkpoint) if name in BASELINES else Path(paths.candidates) / name

    def load(self, name: str) -> Load:
        """What loads it in a process of its own."""
        subject = eager.Subject.of(self.params)
        if name == "eager":
            return eager.load, (subject,)
        return (eager.load_static, (subject, self._traced())) if name == "to_static" else (runtimes.load, (self.folder(name),))

    def precision(self, name: str) -> str:
        return "float32" if name in BASELINES else Candidate.load(self.folder(name)).precision

    def image_bytes(self, name: str) -> int | None:
        """Of the image of a candidate, without its base; None where that is not known here."""
        return None if name in BASELINES else footprint.image_bytes(registry.of(name), self.folder(name))

    def table(self, comparison: Comparison) -> dict[str, dict[str, Any]]:
        """A row for each: what the race found, what it costs, and what `verify` found."""
        return {name: self._row(comparison, name) for name in comparison.found}

    def _traced(self) -> tuple[TensorSpec, ...]:
        """The inputs of the program that was exported, where it takes them in every shape."""
        for name in self.proven:
            with suppress(CandidateError):  # one that was lost is a row of the race
                candidate = Candidate.load(self.folder(name))
                if registry.get(candidate.runtime).registration.source != "eager":
                    return () if candidate.programs else candidate.inputs
        return ()

    def absent(self, name: str, table: Mapping[str, Mapping[str, Any]]) -> str:
        """Why a candidate that was asked for is none of those to choose from; empty where it is one, or was not asked for."""
        if name in self.proven:
            seen = table[name]
            return "" if seen["status"] == Status.MEASURED else f"was asked for and cannot be chosen ({seen['status']}: {seen['reason']})"
        if name not in catalogue.chosen(self.params.optimize.candidates):
            return ""
        if self.folder(name).exists():
            return "was made and is not proven: the report of verify says why"
        return "was asked for and could not be made: the report of optimize says why"

    def _row(self, comparison: Comparison, name: str) -> dict[str, Any]:
        found = result_table.row(comparison, name, self.params.benchmark, file_bytes=system_metrics.size_bytes(self.folder(name)))
        rate = found["throughput_per_s"]
        found |= {"cost_per_million": self._price() / rate if rate else None, "image_bytes": self.image_bytes(name)}
        if name in BASELINES:
            return found | {"runtime": name, "precision": "float32", "metric": self._metric_of_eager()}
        return found | {**self.proven[name]}

    def _price(self) -> float:
        """Of a million seconds on the cores that a candidate may use."""
        return self.params.select.price_per_core_hour * self.params.optimize.threads / 3600 * 1e6

    def _metric_of_eager(self) -> float | None:
        """What a candidate scores, and what that lost."""
        return next((float(row["metric"] + row["metric_drop"]) for row in self.proven.values() if row["metric"] is not None), None)
