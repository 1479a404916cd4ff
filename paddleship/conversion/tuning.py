"""Find the settings that make a candidate faster on this machine, by short measurements of one setting after the other.

The values of a setting are loaded in one child process and measured in turn (A B C, A B C, …), so that a slow moment affects all of
them. The default stays unless another value is faster by at least 3% and by more than the spread of the rounds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import CandidateError
from paddleship.numerics import differences
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.spec import batch_dimension
from paddleship.system.isolate import Isolated, threads

THREADS = "threads"
BUCKET = "bucket"  # rows are padded to multiples of it
_ROUNDS = 9
_WORTHWHILE = 0.03  # share of the default's time; with less, a gain for single rows may be a loss for batches
_FEWEST = 5  # rounds, for a meaningful spread


@dataclass(frozen=True)
class Trial:
    """One value of a setting: the median time of a call in ms, or the reason why it was not measured."""

    setting: str
    value: Any
    median_ms: float | None = None
    spread_ms: float | None = None
    reason: str = ""

    def __str__(self) -> str:
        result = self.reason or ("no time left" if self.median_ms is None else f"{self.median_ms:.4g} ms ± {self.spread_ms or 0:.2g}")
        return f"{self.setting}={self.value}: {result}"


@dataclass(frozen=True)
class Tuned:
    """The candidate with its best settings, and all trials."""

    candidate: Candidate
    trials: list[Trial] = field(default_factory=list)


def row_count(candidate: Candidate) -> int:
    """The number of single rows to tune with: many if sizes of rows matter."""
    return 48 if _may_round(candidate) else 4


def tune(folder: Path, batches: Sequence[Batch], *, seconds: float, timeout_s: float) -> Tuned:
    """Measure the settings of the candidate in `folder` for `seconds`, loading not counted; if the process dies, earlier settings stay."""
    tuned = Tuned(Candidate.load(folder))
    alternatives = list(_alternatives(tuned.candidate))
    if not alternatives or not batches or seconds <= 0:
        return tuned
    try:
        environment = threads(tuned.candidate.threads)
        with Isolated(tuned.candidate.name, TuningWorker, folder, list(batches), timeout_s=timeout_s, environment=environment) as worker:
            left_s = seconds
            for index, (setting, values) in enumerate(alternatives):
                tuned, spent_s = _decide(worker, tuned, setting, values, share_s=left_s / (len(alternatives) - index))
                left_s -= spent_s
    except CandidateError as error:
        return replace(tuned, trials=[*tuned.trials, Trial("tuning", "stopped", reason=str(error))])
    return tuned


class TuningWorker:
    """The object in the child process: one candidate under several settings."""

    def __init__(self, folder: Path, batches: Sequence[Batch]) -> None:
        self._folder, self._batches = folder, batches
        self._loaded: dict[str, runtimes.Runtime] = {}

    def prepare(self, key: str, options: Mapping[str, Any], thread_count: int) -> float:
        """Load with these settings and answer every batch once. Returns the seconds for a second answer to the last batch."""
        self._loaded[key] = runtimes.load(self._folder, options=options, thread_count=thread_count)
        for index in range(len(self._batches)):
            self.measure(key, index, 0)
        return self.measure(key, len(self._batches) - 1, 0) / 1000

    def compare(self, key: str, other: str) -> None:
        """Raises CandidateError if the answers under two settings differ by more than rounding."""
        for batch in self._batches:
            answer, padded = self._loaded[key].run(batch), self._loaded[other].run(batch)
            if odd := [name for name, array in answer.items() if not differences.roughly_equal(array, padded[name])]:
                raise CandidateError(f"it changes the answers: {', '.join(odd)}")

    def measure(self, key: str, first: int, seconds: float) -> float:
        """The median of calls in ms: at least one, for `seconds`, with the batches from `first` on."""
        samples: list[float] = []
        end = time.perf_counter() + seconds
        while True:
            batch = self._batches[(first + len(samples)) % len(self._batches)]
            start = time.perf_counter()
            self._loaded[key].run(batch)
            samples.append(1000 * (time.perf_counter() - start))
            if time.perf_counter() >= end:
                return float(np.median(samples))

    def forget(self) -> None:
        self._loaded.clear()


def _decide(worker: Isolated, tuned: Tuned, setting: str, values: Sequence[Any], *, share_s: float) -> tuple[Tuned, float]:
    """The candidate with the fastest value of one setting (the first value is the current one), and the seconds of measuring."""
    refused: dict[Any, str] = {}
    costs: dict[Any, float] = {}
    for value in values:
        candidate = _with(tuned.candidate, setting, value)
        try:
            seconds = worker.call("prepare", str(value), candidate.options, candidate.threads)
            if costs and _changes_shapes(tuned.candidate, setting):
                worker.call("compare", str(values[0]), str(value))
            costs[value] = seconds
        except CandidateError as error:
            if not worker.usable:
                raise CandidateError(f"{setting}={value}: {error}") from None
            refused[value] = str(error)
    began = time.monotonic()
    rounds = min(_ROUNDS, int(share_s / max(sum(costs.values()), 1e-9)))
    samples: dict[Any, list[float]] = {value: [] for value in costs}
    if rounds >= _FEWEST:
        for index in range(rounds):
            for value in costs:
                samples[value].append(worker.call("measure", str(value), index, share_s / rounds / len(costs) - costs[value]))
    worker.call("forget")
    trials = [Trial(setting, value, *_summary(samples.get(value, [])), refused.get(value, "")) for value in values]
    chosen = best(trials)
    candidate = tuned.candidate if chosen == values[0] else _with(tuned.candidate, setting, chosen)
    return Tuned(candidate, [*tuned.trials, *trials]), time.monotonic() - began


def best(trials: Sequence[Trial]) -> Any:
    """The first value, or the fastest of those that are faster by at least _WORTHWHILE and by more than the spread of either."""
    default, *others = trials
    if default.median_ms is None or default.spread_ms is None:
        return default.value
    faster = [
        trial
        for trial in others
        if trial.median_ms is not None
        and trial.spread_ms is not None
        and default.median_ms - trial.median_ms > max(default.spread_ms, trial.spread_ms, _WORTHWHILE * default.median_ms)
    ]
    return min([default, *faster], key=lambda trial: trial.median_ms or 0).value


def _summary(samples: Sequence[float]) -> tuple[float | None, float | None]:
    if not samples:
        return None, None
    low, median, high = np.percentile(samples, [25, 50, 75])
    return float(median), float(high - low)


def _with(candidate: Candidate, setting: str, value: Any) -> Candidate:
    if setting == THREADS:
        return replace(candidate, threads=value)
    return replace(candidate, options={**candidate.options, setting: value})


def _alternatives(candidate: Candidate) -> Iterator[tuple[str, Sequence[Any]]]:
    """Settings of the runtime and their values, the default first; thread settings only with several threads."""
    allowed = candidate.threads
    if allowed > 1:
        yield THREADS, [allowed, *(2**power for power in reversed(range(allowed.bit_length())) if 2**power < allowed)]
    if _may_round(candidate):
        yield BUCKET, [1, 16]
    runtime = registry.get(candidate.runtime).registration
    dynamic = _has_dynamic_batch(candidate)
    for setting, values in runtime.settings.items():
        if (allowed > 1 or setting not in runtime.thread_settings) and (dynamic or setting not in runtime.batch_settings):
            yield setting, values


def _changes_shapes(candidate: Candidate, setting: str) -> bool:
    """Whether a setting changes the shapes that the model computes with, so that a faulty runtime or model may change answers."""
    return setting == BUCKET or setting in registry.get(candidate.runtime).registration.batch_settings


def _has_dynamic_batch(candidate: Candidate) -> bool:
    """Whether every program of the candidate takes batches of any size."""
    batch = batch_dimension(candidate.inputs)
    return batch is not None and all(batch not in program.sizes for program in candidate.programs)


def _may_round(candidate: Candidate) -> bool:
    """Whether rows may differ in size and the runtime prepares code for each size."""
    varies = any(isinstance(size, str) for spec in candidate.inputs for size in spec.shape[1:])
    return varies and not candidate.programs and registry.kind_of(candidate).per_shape
