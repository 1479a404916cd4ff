"""Measure latency, throughput, memory and cold start of several participants, side by side on this machine.

Every ratio is taken between neighbouring blocks of a participant and of a baseline in the same run. The baseline runs twice, and the
ratio between its two processes is the A/A ratio: a difference of that size is not reported. Sampling continues for participants that
are not decided, until `max_seconds`. Not measured: the network, and several models on one machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from paddleship.benchmark import skipped_measurements, system_metrics
from paddleship.benchmark.comparison import AGAIN, Comparison
from paddleship.benchmark.sampling import Sampler, speedup
from paddleship.benchmark.worker_process import WorkerProcess
from paddleship.config.sections.benchmark import Benchmark
from paddleship.reports.statuses import Status
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.spec import Arrays
from paddleship.statistics import estimates
from paddleship.system import host
from paddleship.system.isolate import Factory
from paddleship.system.progress import Progress

_CURVE_BLOCKS = 4
_CURVE_SHARE, _TOGETHER_SHARE = 0.2, 0.25  # of max_seconds
_TOGETHER_S = 0.5
_ENDURANCE_S = 5.0

Judge = Callable[[str, list[Arrays]], str]
"""judge(name, answers): why these answers to the questions are wrong; empty when they are not."""
Examine = Callable[[str, WorkerProcess], None]


def compare(
    participants: Mapping[str, Factory],
    batches: Mapping[int, Sequence[Batch]],
    settings: Benchmark,
    *,
    thread_count: int,
    baseline: str | None = None,
    questions: Sequence[Batch] = (),
    judge: Judge | None = None,
    on_gpu: bool = False,
) -> Comparison:
    """Measure all participants against `baseline` (default: the first one), within about `max_seconds`.

    A participant that dies, hangs, leaks, or whose answers to `questions` `judge` rejects (the baseline is not judged) keeps its reason and
    loses its samples; the others continue. `on_gpu`: some participant runs on a GPU, which no other process may use meanwhile.
    """
    began, monitor = time.monotonic(), system_metrics.LoadMonitor(on_gpu=on_gpu)
    size = next(iter(batches))
    base, available = baseline or next(iter(participants)), host.core_numbers()
    cores = system_metrics.cores_for(thread_count)
    everyone = {**participants, base + AGAIN: participants[base]}
    sampler = Sampler(everyone, batches, settings, thread_count=thread_count, cores=cores)
    starts = _run(sampler, batches, settings, base, _examiner(sampler, questions, judge, base) if judge else None, began=began)
    _refuse_leaks(sampler, settings, size)
    parts = {count: _parts(count, thread_count, available) for count in settings.concurrency}
    _scale_processes(sampler, list(participants), parts, size, deadline=began + settings.max_seconds + sampler.lost_s)
    measurements = dict(sampler.measurements)
    again = measurements.pop(base + AGAIN)
    pinned = bool(cores) and thread_count < len(available)
    measured = [(name, list(measurements[name].blocks), list(measurements[name].rates)) for name in participants if name in sampler.left()]
    counts, core_count = settings.concurrency, len(available)
    missing = skipped_measurements.starts(starts, settings.starts)
    missing += skipped_measurements.points(measured, sizes=list(batches), counts=counts, thread_count=thread_count, cores=core_count)
    seconds = time.monotonic() - began
    return Comparison(measurements, again, base, size, settings.effect, monitor.seen(), pinned, starts, seconds, tuple(missing))


def _run(
    sampler: Sampler, batches: Mapping[int, Sequence[Batch]], settings: Benchmark, base: str, examine: Examine | None, *, began: float
) -> int:
    """Run all starts of all participants, then further starts of undecided ones. Returns the number of starts."""
    size, *others = batches
    blocks = -(-settings.blocks // settings.starts)
    curve_s = settings.max_seconds * _CURVE_SHARE / max(len(others), 1)
    end = began + settings.max_seconds * (1 - _TOGETHER_SHARE * bool(settings.concurrency))
    alone_s = _TOGETHER_S if 1 in settings.concurrency else 0
    progress = Progress("measuring", settings.starts, "starts")
    wanted: Sequence[str] = list(sampler.measurements)
    starts, last_s = 0, 0.0
    while starts == 0 or (wanted and time.monotonic() + last_s < end + sampler.lost_s):
        start = time.monotonic()
        first = starts == 0
        left = max(1, settings.starts - starts)
        sizes = {size: blocks, **(dict.fromkeys(others, _CURVE_BLOCKS) if first else {})}
        seconds = {size: (end + sampler.lost_s - start) / left / 2, **dict.fromkeys(others, curve_s)}
        sampler.round(wanted, blocks=sizes, seconds=seconds, alone_s=alone_s if first else 0, examine=examine)
        starts, last_s = starts + 1, time.monotonic() - start if not first else _without_curve(start, curve_s * len(others))
        wanted = sampler.left() if starts < settings.starts else _undecided(sampler, base, size, settings.effect)
        progress.advance(most_s=end + sampler.lost_s - time.monotonic())
    return starts


def _without_curve(start: float, curve_s: float) -> float:
    return max(0.0, time.monotonic() - start - curve_s)


def _undecided(sampler: Sampler, base: str, size: int, effect: float) -> list[str]:
    """The participants to start once more, with the baseline and its second process; empty if all are decided."""
    measurements, left = sampler.measurements, sampler.left()
    if base not in left or base + AGAIN not in left:
        return []
    aa_ratio = speedup(measurements[base], measurements[base + AGAIN], size)
    open_ones = [
        name
        for name in left
        if name not in (base, base + AGAIN)
        and (seen := speedup(measurements[base], measurements[name], size))
        and not estimates.settled(seen, aa_ratio, effect=effect)
    ]
    return [base, base + AGAIN, *open_ones] if open_ones else []


def _examiner(sampler: Sampler, questions: Sequence[Batch], judge: Judge, base: str) -> Examine:
    """A function that asks a participant the known questions after its load, and removes it if it answers differently from `base`."""

    def examine(name: str, worker: WorkerProcess) -> None:
        if name.removesuffix(AGAIN) == base:
            return
        if reason := judge(name, worker.answer(questions)):
            sampler.exclude(name, Status.WRONG, f"its answers after the load differ from eager's: {reason}")

    return examine


def _refuse_leaks(sampler: Sampler, settings: Benchmark, size: int) -> None:
    """Measure participants whose memory grew, or was seen too seldom, for longer: caches grow ever more slowly, a leak does not stop."""
    for name in sampler.left():
        growth = sampler.measurements[name].growth()
        if (
            growth.low <= settings.max_growth_bytes
            if growth
            else len(sampler.measurements[name].samples(size)) < estimates.ENOUGH["p50_ms"]
        ):
            continue
        seconds = min(_ENDURANCE_S, settings.max_seconds / 6)
        growth = estimates.lasting_slope(sampler.watch_memory(name, size=size, seconds=seconds))
        if growth and growth.low > settings.max_growth_bytes and name in sampler.left():
            reason = (
                f"its memory grows by {growth.value:,.0f} bytes per 1,000 requests (95% interval from {growth.low:,.0f}, "
                f"benchmark.max_growth_bytes is {settings.max_growth_bytes:,}): a server would run out of memory, so it cannot be chosen"
            )
            sampler.exclude(name, Status.LEAKS, reason)


def _parts(count: int, thread_count: int, available: Sequence[int]) -> list[Sequence[int]]:
    """The cores of each of `count` processes; empty if there are not enough."""
    parts = [available[index * thread_count :][:thread_count] for index in range(count)]
    return parts if len(parts[-1]) == thread_count else []


def _scale_processes(
    sampler: Sampler, names: Sequence[str], parts: Mapping[int, Sequence[Sequence[int]]], size: int, *, deadline: float
) -> None:
    """Measure the throughput of several processes of a participant, as a server runs them, while there is time; the baselines last."""
    cost_s = 0.0
    for count, cores in parts.items():
        for name in reversed(names):
            start = time.monotonic()
            if start + cost_s > deadline:
                return
            if len(cores) > 1 and name in sampler.left():  # one process was measured before
                sampler.run_together(name, cores, size=size, seconds=_TOGETHER_S)
                cost_s = max(cost_s, (time.monotonic() - start) * (count + 1) / count)
