"""The participants of a benchmark: the baselines and every proven candidate, how each is loaded, and the facts about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddleship.benchmark import gpu_break_even, result_table, system_metrics
from paddleship.benchmark.comparison import Comparison
from paddleship.config import catalogue
from paddleship.config.params import Params
from paddleship.custody import candidates
from paddleship.errors import CandidateError
from paddleship.image import footprint, user_packages
from paddleship.model import eager
from paddleship.reports.statuses import Status
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.system.isolate import Factory

BASELINES = ("eager", "to_static")


@dataclass(frozen=True)
class Participants:
    """The names of the participants in order; `proven` has the facts that `verify` recorded for each candidate."""

    params: Params
    proven: Mapping[str, Mapping[str, Any]]

    def __iter__(self) -> Iterator[str]:
        return iter((*BASELINES, *self.proven))

    def require_proven(self) -> None:
        """Raise CandidateError if a candidate, or a file of it, is not the one that was proven."""
        for name in self.proven:
            candidates.require_proven(candidates.load(self.params, name), self.proven)

    def folder(self, name: str) -> Path:
        """The folder of a candidate; for a baseline, the checkpoint."""
        paths = self.params.paths
        return Path(paths.checkpoint) if name in BASELINES else Path(paths.candidates) / name

    def load(self, name: str) -> Factory:
        """The function and arguments that load it in a process of its own."""
        source_model = eager.SourceModel.of(self.params)
        if name == "eager":
            return eager.load, (source_model,)
        return (eager.load_static, (source_model, self._traced())) if name == "to_static" else (runtimes.load, (self.folder(name),))

    def precision(self, name: str) -> str:
        return "float32" if name in BASELINES else Candidate.load(self.folder(name)).precision

    def image_bytes(self, name: str) -> int | None:
        """Bytes of a candidate's image, without the base image; None if unknown."""
        if name in BASELINES:
            return None
        further = user_packages.pins(candidates.read(self.params, name))
        return footprint.image_bytes(registry.of(name), self.folder(name), further)

    def table(self, comparison: Comparison) -> dict[str, dict[str, Any]]:
        """A row for each participant: its measurements, its costs, and the results of `verify`."""
        return {name: self._row(comparison, name) for name in comparison.measurements}

    def _traced(self) -> tuple[TensorSpec, ...]:
        """The inputs of the exported program, if it accepts every size."""
        for name in self.proven:
            with suppress(CandidateError):  # a missing candidate is a row of the table
                candidate = Candidate.load(self.folder(name))
                if registry.get(candidate.runtime).registration.source != "eager":
                    return () if candidate.programs else candidate.inputs
        return ()

    def absent(self, name: str, table: Mapping[str, Mapping[str, Any]]) -> str:
        """Why a requested candidate cannot be chosen; empty if it can be, or was not requested."""
        if name in self.proven:
            seen = table[name]
            return (
                ""
                if seen["status"] == Status.MEASURED
                else f"is in optimize.candidates but cannot be chosen ({seen['status']}: {seen['reason']})"
            )
        if name not in catalogue.chosen(self.params.optimize.candidates):
            return ""
        if self.folder(name).exists():
            return "was made but is not proven: see the report of verify"
        return "is in optimize.candidates but could not be made: see the report of optimize"

    def _row(self, comparison: Comparison, name: str) -> dict[str, Any]:
        row = result_table.row(comparison, name, self.params.benchmark, file_bytes=system_metrics.size_bytes(self.folder(name)))
        rate = row["throughput_per_s"]
        price = self._price(gpu=self.on_gpu(name) or bool(row["peak_device_memory_bytes"]))
        row |= {"cost_per_million": price / rate if rate else None, "image_bytes": self.image_bytes(name)}
        if name in BASELINES:
            return row | {"runtime": name, "precision": "float32", "metric": self._metric_of_eager()}
        return row | {**self.proven[name]}

    def on_gpu(self, name: str) -> bool:
        """Whether a candidate is registered to compute on a GPU; a baseline is where Paddle puts it."""
        return name not in BASELINES and catalogue.kinds()[name].gpu

    def gpu_pays_from(self, comparison: Comparison) -> int | None:
        """The batch size from which on a proven candidate on a GPU costs less per row than the others; None if there is none."""
        rates = {name: result_table.typical_rates(comparison.measurements[name]) for name in self.proven}
        on_gpu = [name for name in self.proven if self.on_gpu(name)]
        return gpu_break_even.batch_size(rates, {name: self._price(gpu=name in on_gpu) for name in rates}, on_gpu)

    def _price(self, *, gpu: bool) -> float:
        """The price of a million seconds on the cores that a candidate may use, and on a GPU."""
        select = self.params.select
        return (select.price_per_core_hour * self.params.optimize.threads + gpu * select.price_per_gpu_hour) / 3600 * 1e6

    def _metric_of_eager(self) -> float | None:
        """The score of eager, from a candidate's score and its drop."""
        return next((float(row["metric"] + row["metric_drop"]) for row in self.proven.values() if row["metric"] is not None), None)
