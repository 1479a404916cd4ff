"""Sample participants in worker processes, in interleaved blocks, until their differences are decided.

Only one of them runs at a time, on cores of its own. The others are stopped, because idle threads of a runtime may spin. Every
participant is started several times.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from paddleship.benchmark import system_metrics
from paddleship.benchmark.worker import BenchWorker, WarmUp
from paddleship.benchmark.worker_process import WorkerProcess, together
from paddleship.config.sections.benchmark import Benchmark
from paddleship.errors import PaddleshipError
from paddleship.reports.statuses import Status
from paddleship.shipped.computing.preprocess import Batch
from paddleship.statistics import estimates
from paddleship.statistics.estimates import Interval
from paddleship.system.isolate import Factory, Isolated, threads

_FEWEST_BLOCKS = 2
_FEWEST_CALLS = 7  # of a batch size: three to warm up, and two in each of the fewest blocks
_PARTS = 16  # of a longer trial for leaks


@dataclass(frozen=True)
class Block:
    """Samples in ms of one participant, in order; `start` numbers its process, `block` is paired with the same number of the others.

    `turn` is its position among the participants in this block, `batches` are the indices of the batches that were asked.
    """

    start: int
    block: int
    turn: int
    samples: tuple[float, ...]
    batches: tuple[int, ...]


@dataclass(frozen=True)
class Measurement:
    """All measurements of one participant: `blocks[size]` has its blocks, the tuples have one value per start.

    `blocks` keeps all samples, also if the participant failed or answered wrongly later; `counted` are those that count. Warm-ups are
    separate. `memory` has, for each start, resident bytes by number of requests so far. `rates` are rows per second by number of
    concurrent processes.
    """

    name: str
    blocks: Mapping[int, tuple[Block, ...]] = field(default_factory=dict)
    status: Status = Status.MEASURED
    reason: str = ""
    cold_start_ms: tuple[float, ...] = ()
    load_ms: tuple[float, ...] = ()
    first_call_ms: tuple[float, ...] = ()
    new_shape_ms: tuple[float, ...] = ()
    warmup_s: tuple[float, ...] = ()
    unstable_warmups: int = 0
    peak_memory_bytes: int = 0
    peak_device_memory_bytes: int | None = None
    memory: tuple[tuple[tuple[float, float], ...], ...] = ()
    rates: Mapping[int, float] = field(default_factory=dict)

    @property
    def counted(self) -> Mapping[int, tuple[Block, ...]]:
        """The blocks, unless the participant failed or answered wrongly; one that leaks may still be a baseline."""
        return self.blocks if self.status in (Status.MEASURED, Status.LEAKS) else {}

    def with_block(self, size: int, block: Block) -> Measurement:
        return replace(self, blocks={**self.blocks, size: (*self.blocks.get(size, ()), block)})

    def samples(self, size: int) -> list[float]:
        return [sample for block in self.counted.get(size, ()) for sample in block.samples]

    def percentiles(self, size: int) -> dict[str, float | None]:
        """p50 to p99 of all samples; None if there are too few."""
        return estimates.percentiles(self.samples(size))

    def throughput_per_s(self, size: int) -> float | None:
        """Rows per second in batches of `size`: the median over blocks, which one disturbed block does not change."""
        rates = [1000 * size * len(block.samples) / sum(block.samples) for block in self.counted.get(size, ())]
        return float(np.median(rates)) if rates else None

    def growth(self) -> Interval | None:
        """Memory growth in bytes per 1,000 requests."""
        return estimates.slope([[(1e-3 * requests, resident) for requests, resident in points] for points in self.memory])


def speedup(slower: Measurement, faster: Measurement, size: int) -> Interval | None:
    """How many times faster one is than the other, by the medians of paired blocks; None without paired blocks."""
    starts = paired(slower, faster, size)
    return estimates.ratio(starts) if starts else None


def paired(slower: Measurement, faster: Measurement, size: int) -> list[list[float]]:
    """Logarithms of the ratios of the medians of neighbouring blocks, by start."""
    medians = {(block.start, block.block): math.log(np.median(block.samples)) for block in slower.counted.get(size, ())}
    starts: dict[int, list[float]] = {}
    for block in faster.counted.get(size, ()):
        if (block.start, block.block) in medians:
            starts.setdefault(block.start, []).append(medians[block.start, block.block] - math.log(np.median(block.samples)))
    return list(starts.values())


class Sampler:
    """The participants, their measurements so far, and those that have not failed.

    `lost_s` is the time spent on failed calls, such as waiting for a process that hangs; it is not subtracted from the others' time.
    """

    def __init__(
        self,
        participants: Mapping[str, Factory],
        batches: Mapping[int, Sequence[Batch]],
        settings: Benchmark,
        *,
        thread_count: int,
        cores: Sequence[int] = (),
    ) -> None:
        self.measurements = {name: Measurement(name) for name in participants}
        self._participants, self._batches, self._settings = participants, batches, settings
        self._thread_count, self._cores = thread_count, cores
        self.lost_s = 0.0
        self._starts = 0
        self._row_ms: dict[str, float] = {}

    def left(self) -> list[str]:
        return [name for name, measurement in self.measurements.items() if measurement.status == Status.MEASURED]

    def exclude(self, name: str, status: Status, reason: str) -> None:
        """Record why a participant is removed; its measurements are kept."""
        self._note(name, status=status, reason=reason)

    def round(
        self,
        names: Sequence[str],
        *,
        blocks: Mapping[int, int],
        seconds: Mapping[int, float],
        alone_s: float = 0,
        examine: Callable[[str, WorkerProcess], None] | None = None,
    ) -> None:
        """Start the named participants and measure the batch sizes of `blocks` in turn, each for about the given seconds.

        Then each runs alone for `alone_s` to measure its throughput, and `examine` may ask it something.
        """
        start, self._starts = self._starts, self._starts + 1
        workers: dict[str, WorkerProcess] = {}
        try:
            for name in _rotated([name for name in names if name in self.left()], start):
                self._guarded(name, self._start_worker, name, workers)
            for size, count in blocks.items():
                able = {name: worker for name, worker in workers.items() if self._affordable(name, size, seconds[size] / len(workers))}
                self._measure(size, able, start, count, seconds[size])
            for name in self._still_in(workers):
                if alone_s:
                    self._guarded(name, self._busy_together, name, [workers[name]], next(iter(blocks)), alone_s)
            for name in self._still_in(workers):
                if examine:
                    self._guarded(name, examine, name, workers[name])
        finally:
            for worker in workers.values():
                worker.close()

    def run_together(self, name: str, cores: Sequence[Sequence[int]], *, size: int, seconds: float) -> None:
        """Run one process of a participant on each part of `cores` at the same time, and record their total rows per second."""
        workers: list[WorkerProcess] = []
        try:
            self._guarded(name, self._start_workers, name, workers, cores, size, seconds)
        finally:
            for worker in workers:
                worker.close()

    def watch_memory(self, name: str, *, size: int, seconds: float) -> list[tuple[float, float]]:
        """Keep a participant busy in a new process: resident bytes by thousands of requests, in equal parts of the time."""
        workers: list[WorkerProcess] = []
        try:
            return self._guarded(name, self._memory_of, name, workers, size, seconds) or []
        finally:
            for worker in workers:
                worker.close()

    def _memory_of(self, name: str, workers: list[WorkerProcess], size: int, seconds: float) -> list[tuple[float, float]]:
        workers.append(self._open(name, self._cores))
        workers[0].warm_up(size, self._settings.warmup_s)
        points, requests = [], 0
        for _ in range(_PARTS):
            requests += workers[0].busy(size, seconds / _PARTS)[0]
            points.append((1e-3 * requests, float(workers[0].resident_bytes)))
        return points

    def _start_workers(self, name: str, workers: list[WorkerProcess], cores: Sequence[Sequence[int]], size: int, seconds: float) -> None:
        for part in cores:
            workers.append(self._open(name, part))
            workers[-1].warm_up(size, self._settings.warmup_s)
        self._busy_together(name, workers, size, seconds)

    def _busy_together(self, name: str, workers: Sequence[WorkerProcess], size: int, seconds: float) -> None:
        counts = together([partial(worker.busy, size, seconds) for worker in workers])
        rate = sum(size * answered / taken for answered, taken in counts)
        self._note(name, rates={**self.measurements[name].rates, len(workers): rate})

    def _start_worker(self, name: str, workers: dict[str, WorkerProcess]) -> None:
        """Start a participant and get its first answer."""
        began = time.perf_counter()
        workers[name] = self._open(name, self._cores)
        load_ms, first_ms = workers[name].first(next(iter(self._batches)))
        cold_ms, seen = 1000 * (time.perf_counter() - began), self.measurements[name]
        self._note(
            name,
            cold_start_ms=(*seen.cold_start_ms, cold_ms),
            load_ms=(*seen.load_ms, load_ms),
            first_call_ms=(*seen.first_call_ms, first_ms),
            memory=(*seen.memory, ()),
        )

    def _open(self, name: str, cores: Sequence[int]) -> WorkerProcess:
        load, arguments = self._participants[name]
        worker_arguments = (load, arguments, dict(self._batches), tuple(cores))
        return WorkerProcess(
            Isolated(name, BenchWorker, *worker_arguments, timeout_s=self._settings.timeout_s, environment=threads(self._thread_count))
        )

    def _measure(self, size: int, workers: Mapping[str, WorkerProcess], start: int, blocks: int, seconds: float) -> None:
        end = time.monotonic() + seconds - self.lost_s
        typical: dict[str, float] = {}
        limit_s = min(self._settings.warmup_s, seconds / 3 / max(len(workers), 1))
        for name in self._still_in(workers):
            warm_up = self._guarded(name, workers[name].warm_up, size, limit_s)
            if warm_up:
                typical[name] = warm_up.typical_ms
                self._row_ms[name] = warm_up.typical_ms / size
                self._note_warm_up(name, warm_up)
        left_ms = 1000 * max(0.0, end + self.lost_s - time.monotonic())
        for block in range(blocks):
            if block >= _FEWEST_BLOCKS and time.monotonic() > end + self.lost_s + seconds:
                break
            for turn, name in enumerate(_rotated(self._still_in(typical), block)):
                room = int(left_ms / blocks / len(typical) / typical[name])
                count = max(1, min(self._settings.samples_per_block, room))
                self._guarded(name, self._block, name, workers[name], size, (start, block, turn), count)

    def _affordable(self, name: str, size: int, seconds: float) -> bool:
        """Whether a batch size can be measured in this time, judged by the time per row so far; slow models skip large batches."""
        return size == next(iter(self._batches)) or 1e-3 * size * self._row_ms.get(name, 0) * _FEWEST_CALLS < 2 * seconds

    def _block(self, name: str, worker: WorkerProcess, size: int, position: tuple[int, int, int], count: int) -> None:
        samples, batch_indices, changed = worker.measure(size, count)
        if changed:
            self.exclude(name, Status.WRONG, f"its answers changed under load: {changed}")
            return
        self.measurements[name] = seen = self.measurements[name].with_block(size, Block(*position, tuple(samples), tuple(batch_indices)))
        if size == next(iter(self._batches)):
            *before, last = seen.memory
            self._note(name, memory=(*before, (*last, (worker.requests, worker.resident_bytes))))
        self._note(
            name,
            peak_memory_bytes=max(seen.peak_memory_bytes, worker.peak_bytes),
            peak_device_memory_bytes=system_metrics.more(seen.peak_device_memory_bytes, worker.peak_device_bytes),
        )

    def _note_warm_up(self, name: str, warm_up: WarmUp) -> None:
        seen = self.measurements[name]
        self._note(
            name,
            warmup_s=(*seen.warmup_s, warm_up.seconds),
            unstable_warmups=seen.unstable_warmups + (not warm_up.stable),
            new_shape_ms=(*seen.new_shape_ms, *warm_up.new_shape_ms),
        )

    def _note(self, name: str, **changes: Any) -> None:
        self.measurements[name] = replace(self.measurements[name], **changes)

    def _still_in(self, names: Mapping[str, Any]) -> list[str]:
        return [name for name in names if name in self.left()]

    def _guarded(self, name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function; if it fails, the participant is removed with the reason."""
        began = time.monotonic()
        try:
            return work(*arguments)
        except PaddleshipError as error:
            self.lost_s += time.monotonic() - began
            self.exclude(name, Status.FAILED, str(error))
            return None


def _rotated(names: Sequence[str], by: int) -> list[str]:
    return [*names[by % len(names) :], *names[: by % len(names)]] if names else []
