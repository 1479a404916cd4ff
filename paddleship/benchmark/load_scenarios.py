"""Run eager and the winner in the scenarios of MLPerf Inference: SingleStream, MultiStream, Offline, Server.

One after the other, each in a process of its own, on real rows. A latency here includes joining rows into a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from paddleship import loadgen
from paddleship.benchmark.workload import Workload
from paddleship.config.sections.benchmark import Benchmark
from paddleship.errors import BadInput
from paddleship.loadgen import Measured, MultiStream, Offline, Peak, Scenario, SingleStream
from paddleship.reports.verdict import Check
from paddleship.statistics.estimates import percentiles
from paddleship.system.isolate import Factory, Isolated, threads

_ENOUGH = loadgen.needed(0.99)  # queries for a 99th percentile


@dataclass(frozen=True)
class ScenarioResults:
    """The results of one model; without `engine` it died, and `reason` says why.

    `peak_qps` is the highest load of random arrivals that kept `benchmark.slo_p99_ms`, if that is given. Percentiles are None if there were
    too few queries.
    """

    engine: str = ""
    single_stream_p50_ms: float | None = None
    single_stream_p90_ms: float | None = None
    single_stream_p99_ms: float | None = None
    multi_stream_p50_ms: float | None = None
    multi_stream_p99_ms: float | None = None
    offline_per_s: float | None = None
    peak_qps: float | None = None
    peak_p99_ms: float | None = None
    reason: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def checks(self, slo_p99_ms: float | None) -> list[Check]:
        """Checks that the model survived, and that at least one load keeps the objective."""
        if not self.engine:
            advice = "ship another candidate by select.candidate, or leave this one out of optimize.candidates"
            return [Check(name="scenarios", measured=self.reason, limit="every query is answered", passed=False, advice=advice)]
        if slo_p99_ms is None:
            return []
        held = self.peak_qps is not None
        return [Check(name="peak_p99_ms", measured=self.peak_p99_ms, limit=slo_p99_ms, passed=held, advice=self.reason)]


class LoadWorker:
    """The object in the child process: one loaded model, and the rows by number."""

    def __init__(self, load: Factory, workload: Workload) -> None:
        make, arguments = load
        self._model = make(*arguments)
        self._preprocess, self._examples = workload.preprocess, workload.examples
        self._alone = [self._preprocess.collate([example]) for example in self._examples]
        self._answer(range(len(self._examples)))

    def run(self, scenario: Scenario, seed: int) -> Measured:
        return loadgen.run(scenario, self._answer, rows=len(self._examples), seed=seed)

    def peak(self, slo_p99_ms: float, max_seconds: float, seed: int) -> Peak:
        return loadgen.peak_qps(self._answer, rows=len(self._examples), seed=seed, slo_p99_ms=slo_p99_ms, max_seconds=max_seconds)

    def _answer(self, rows: Sequence[int]) -> None:
        batch = self._alone[rows[0]] if len(rows) == 1 else self._preprocess.collate([self._examples[row] for row in rows])
        self._model.run(batch)


def measure(name: str, load: Factory, workload: Workload, *, settings: Benchmark, thread_count: int, seed: int) -> ScenarioResults:
    """Run every scenario on one model, for at most `scenario_seconds` each."""
    limit_s = settings.timeout_s + settings.max_seconds
    try:
        with Isolated(name, LoadWorker, load, workload, timeout_s=limit_s, environment=threads(thread_count)) as worker:
            return _measure(worker, settings, seed)
    except BadInput as error:
        return ScenarioResults(reason=str(error))


def _measure(worker: Isolated, settings: Benchmark, seed: int) -> ScenarioResults:
    seconds = settings.scenario_seconds
    single: Measured = worker.call("run", SingleStream(max_seconds=seconds), seed)
    several: Measured = worker.call("run", MultiStream(max_seconds=seconds), seed)
    rows = max(1, min(_ENOUGH, int(single.throughput_per_s * seconds)))
    offline: Measured = worker.call("run", Offline(batch_size=max(settings.batch_sizes), min_samples=rows), seed)
    peak: Peak | None = worker.call("peak", settings.slo_p99_ms, settings.max_seconds / 2, seed) if settings.slo_p99_ms else None
    alone, together = percentiles(single.latencies_ms), percentiles(several.latencies_ms)
    return ScenarioResults(
        single.engine,
        alone["p50_ms"],
        alone["p90_ms"],
        alone["p99_ms"],
        together["p50_ms"],
        together["p99_ms"],
        offline.throughput_per_s,
        peak.qps if peak else None,
        _p99(peak) if peak else None,
        peak.reason if peak else "",
    )


def _p99(peak: Peak) -> float | None:
    """The p99 at the highest load that kept the objective, or of the load that came nearest."""
    if peak.measured:
        return percentiles(peak.measured.latencies_ms)["p99_ms"]
    return min((trial.p99_ms for trial in peak.trials if trial.p99_ms is not None), default=None)
