"""Latency and throughput of several contestants, measured side by side in processes of their own.

Closed loop: one request at a time per contestant. Blocks are interleaved (A B C, B C A, …), so that a slow
minute of the machine falls on all of them; warm-up is kept apart; raw samples are kept. A percentile is only
stated from as many samples as MLPerf LoadGen's early-stopping rule asks for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import BadInput
from paddleship.isolate import Isolated, threads
from paddleship.params import Benchmark
from paddleship.preprocess import Batch
from paddleship.progress import Progress

ENOUGH = {"p50_ms": 5, "p90_ms": 64, "p95_ms": 130, "p99_ms": 662}
_RESAMPLES = 10_000


def percentiles(samples: Sequence[float]) -> dict[str, float | None]:
    """p50 to p99 of samples in ms; None where there are fewer than ENOUGH."""
    return {key: float(np.percentile(samples, float(key[1:3]))) if len(samples) >= enough else None for key, enough in ENOUGH.items()}


class Contestant:
    """Lives in the child: loads one model, then times it on the batches it was given."""

    def __init__(self, load: Callable[..., Any], arguments: tuple[Any, ...], batches: Mapping[int, Sequence[Batch]]) -> None:
        start = time.perf_counter_ns()
        self._model = load(*arguments)
        self._load_ns = time.perf_counter_ns() - start
        self._batches = batches
        self._place = 0

    def warm_up(self, size: int, seconds: float) -> dict[str, float]:
        """Answer every batch once and go on for `seconds`; load time, first call and a typical call, in ms."""
        first = self.measure(size, 1)[0]
        samples = self.measure(size, len(self._batches[size]))
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            samples = self.measure(size, len(self._batches[size]))
        return {"load_ms": self._load_ns / 1e6, "first_call_ms": first, "typical_ms": float(np.median(samples))}

    def measure(self, size: int, count: int) -> list[float]:
        """Milliseconds of `count` calls, going round the batches of this size."""
        batches, samples = self._batches[size], []
        for _ in range(count):
            batch = batches[self._place % len(batches)]
            self._place += 1
            start = time.perf_counter_ns()
            self._model.run(batch)
            samples.append((time.perf_counter_ns() - start) / 1e6)
        return samples


@dataclass
class Measurement:
    """Everything seen of one contestant: `blocks[size]` holds the samples of each block in ms."""

    name: str
    load_ms: float = 0
    first_call_ms: float = 0
    peak_memory_bytes: int = 0
    blocks: dict[int, list[list[float]]] = field(default_factory=dict)
    reason: str = ""

    def percentiles(self, size: int) -> dict[str, float | None]:
        """p50 to p99 of all samples; None where there are too few."""
        return percentiles([sample for block in self.blocks.get(size, []) for sample in block])

    def throughput_per_s(self, size: int) -> float | None:
        """Rows per second in batches of `size`, from the total time spent."""
        samples = [sample for block in self.blocks.get(size, []) for sample in block]
        return 1000 * size * len(samples) / sum(samples) if samples else None


def compare(
    contestants: Mapping[str, tuple[Callable[..., Any], tuple[Any, ...]]],
    batches: Mapping[int, Sequence[Batch]],
    settings: Benchmark,
    *,
    thread_count: int,
) -> dict[str, Measurement]:
    """Measure all contestants in interleaved blocks, within `max_seconds`; one that dies keeps its reason and the rest go on."""
    found = {name: Measurement(name) for name in contestants}
    alive: dict[str, Isolated] = {}
    try:
        for name, (load, arguments) in contestants.items():
            try:
                alive[name] = Isolated(
                    name, Contestant, load, arguments, dict(batches), timeout_s=settings.timeout_s, environment=threads(thread_count)
                )
            except BadInput as error:
                found[name].reason = str(error)
        share = settings.max_seconds / len(batches)
        for size in batches:
            _measure_size(size, alive, found, settings, share_s=share)
        for name, child in alive.items():
            found[name].peak_memory_bytes = _peak_memory(child.pid)
    finally:
        for child in alive.values():
            child.close()
    return found


def ratio_interval(numerator: Measurement, denominator: Measurement, size: int) -> tuple[float, float, float]:
    """Median of numerator over denominator with a 95% interval, by bootstrap over the interleaved blocks."""
    ratios = np.array(
        [np.median(above) / np.median(below) for above, below in zip(numerator.blocks[size], denominator.blocks[size], strict=True)]
    )
    draws = np.random.default_rng(0).choice(ratios, (_RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return float(np.median(ratios)), float(low), float(high)


def write_samples(found: Mapping[str, Measurement], path: Path) -> None:
    """Raw samples as Parquet: contestant, batch size, block, milliseconds."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        (name, size, index, sample)
        for name, measurement in found.items()
        for size, blocks in measurement.blocks.items()
        for index, block in enumerate(blocks)
        for sample in block
    ]
    names = ("contestant", "batch_size", "block", "latency_ms")
    parquet.write_table(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]), path)


def _measure_size(size: int, alive: dict[str, Isolated], found: dict[str, Measurement], settings: Benchmark, *, share_s: float) -> None:
    started = time.monotonic()
    typical: dict[str, float] = {}
    for name in list(alive):
        facts = _guarded(name, alive, found, "warm_up", size, min(0.3, share_s / 20))
        if facts:
            typical[name] = facts["typical_ms"]
            if not found[name].load_ms:
                found[name].load_ms, found[name].first_call_ms = facts["load_ms"], facts["first_call_ms"]
    if not typical:
        return
    left_ms = 1000 * max(0.0, share_s - (time.monotonic() - started))
    per_block = {
        name: max(1, min(settings.samples_per_block, int(left_ms / settings.blocks / len(typical) / cost)))
        for name, cost in typical.items()
    }
    progress = Progress(f"batch {size}", settings.blocks, "blocks")
    for index in range(settings.blocks):
        names = [name for name in typical if name in alive]
        for name in names[index % len(names) :] + names[: index % len(names)] if names else []:
            samples = _guarded(name, alive, found, "measure", size, per_block[name])
            if samples:
                found[name].blocks.setdefault(size, []).append(samples)
        progress.advance()


def _guarded(name: str, alive: dict[str, Isolated], found: dict[str, Measurement], method: str, *arguments: Any) -> Any:
    """Call a contestant; one that fails leaves the race with its reason and without its samples."""
    try:
        return alive[name].call(method, *arguments)
    except BadInput as error:
        alive.pop(name).close()
        found[name].reason = str(error)
        found[name].blocks.clear()
        return None


def _peak_memory(pid: int) -> int:
    """Largest resident size of a process so far, read from outside; bytes."""
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        import psutil

        return int(psutil.Process(pid).memory_info().rss)
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
