"""Latency, throughput, memory and cold start of several participants, side by side on the machine as it is now.

Every ratio is taken between blocks that lay next to each other, against a baseline that runs in the same race; the
baseline runs twice, and what it shows against itself is what no verdict may be built on. Samples go on, for those that
are not decided, until `max_seconds`. Not covered: the network, and several models on one machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from paddleship.benchmark import system_metrics
from paddleship.benchmark.comparison import AGAIN, Comparison
from paddleship.benchmark.sampling import Race, speedup
from paddleship.benchmark.worker import Engine, loop
from paddleship.benchmark.worker_process import WorkerProcess
from paddleship.config import preflight
from paddleship.config.params import Benchmark
from paddleship.reports.statuses import Status
from paddleship.shipped.common.preprocess import Batch
from paddleship.shipped.common.spec import Arrays
from paddleship.statistics import estimates
from paddleship.system import host
from paddleship.system.isolate import Load
from paddleship.system.progress import Progress

_CURVE_BLOCKS = 4
_CURVE_SHARE, _TOGETHER_SHARE = 0.2, 0.25  # of max_seconds
_TOGETHER_S = 0.5
_ENDURANCE_S = 5.0

Judge = Callable[[str, list[Arrays]], str]
"""judge(name, answers): why these answers to the questions are wrong; empty when they are not."""
Examine = Callable[[str, WorkerProcess], None]


def compare(
    participants: Mapping[str, Load],
    batches: Mapping[int, Sequence[Batch]],
    settings: Benchmark,
    *,
    thread_count: int,
    baseline: str | None = None,
    questions: Sequence[Batch] = (),
    judge: Judge | None = None,
    engine: Engine = loop,
) -> Comparison:
    """Measure all participants against `baseline` (the first one), within about `max_seconds`.

    One that dies, hangs, leaks, or (the baseline apart) whose answers to `questions` `judge` has something to say about,
    keeps its reason and loses its samples; the rest go on.
    """
    began, monitor = time.monotonic(), system_metrics.LoadMonitor()
    size = next(iter(batches))
    base, available = baseline or next(iter(participants)), host.core_numbers()
    cores = system_metrics.cores_for(thread_count)
    everyone = {**participants, base + AGAIN: participants[base]}
    race = Race(everyone, batches, settings, thread_count=thread_count, cores=cores, engine=engine)
    starts = _run(race, batches, settings, base, _examiner(race, questions, judge, base) if judge else None, began=began)
    _refuse_leaks(race, settings, size)
    parts = {count: _parts(count, thread_count, available) for count in settings.concurrency}
    _scale_processes(race, list(participants), parts, size, deadline=began + settings.max_seconds + race.lost_s)
    found = dict(race.found)
    again = found.pop(base + AGAIN)
    pinned = bool(cores) and thread_count < len(available)
    left_out = _left_out(race, list(participants), batches, settings, starts, thread_count=thread_count, cores=len(available))
    return Comparison(found, again, base, size, settings.effect, monitor.seen(), pinned, starts, time.monotonic() - began, left_out)


def _left_out(
    race: Race,
    names: Sequence[str],
    batches: Mapping[int, Sequence[Batch]],
    settings: Benchmark,
    starts: int,
    *,
    thread_count: int,
    cores: int,
) -> tuple[str, ...]:
    """What was asked for and not measured, of those that are still in the race."""
    said = []
    if starts < settings.starts:
        said.append(
            f"there was time for {starts} of {settings.starts} starts, so the intervals say little of how processes of one program "
            "differ: raise benchmark.max_seconds"
        )
    measured = [(name, list(race.found[name].blocks), list(race.found[name].rates)) for name in names if name in race.left()]
    return (*said, *preflight.left_out(measured, sizes=list(batches), counts=settings.concurrency, thread_count=thread_count, cores=cores))


def _run(
    race: Race, batches: Mapping[int, Sequence[Batch]], settings: Benchmark, base: str, examine: Examine | None, *, began: float
) -> int:
    """All starts of all participants, then further ones of those that are not decided; how many starts there were."""
    size, *others = batches
    blocks = -(-settings.blocks // settings.starts)
    curve_s = settings.max_seconds * _CURVE_SHARE / max(len(others), 1)
    end = began + settings.max_seconds * (1 - _TOGETHER_SHARE * bool(settings.concurrency))
    alone_s = _TOGETHER_S if 1 in settings.concurrency else 0
    progress = Progress("measuring", settings.starts, "starts")
    wanted: Sequence[str] = list(race.found)
    starts, last_s = 0, 0.0
    while starts == 0 or (wanted and time.monotonic() + last_s < end + race.lost_s):
        start = time.monotonic()
        first = starts == 0
        left = max(1, settings.starts - starts)
        sizes = {size: blocks, **(dict.fromkeys(others, _CURVE_BLOCKS) if first else {})}
        seconds = {size: (end + race.lost_s - start) / left / 2, **dict.fromkeys(others, curve_s)}
        race.round(wanted, blocks=sizes, seconds=seconds, alone_s=alone_s if first else 0, examine=examine)
        starts, last_s = starts + 1, time.monotonic() - start if not first else _without_curve(start, curve_s * len(others))
        wanted = race.left() if starts < settings.starts else _undecided(race, base, size, settings.effect)
        progress.advance()
    return starts


def _without_curve(start: float, curve_s: float) -> float:
    return max(0.0, time.monotonic() - start - curve_s)


def _undecided(race: Race, base: str, size: int, effect: float) -> list[str]:
    """Who should be started once more, the baseline and its second process with them; nobody when all is decided."""
    found, left = race.found, race.left()
    if base not in left or base + AGAIN not in left:
        return []
    noise = speedup(found[base], found[base + AGAIN], size)
    open_ones = [
        name
        for name in left
        if name not in (base, base + AGAIN)
        and (seen := speedup(found[base], found[name], size))
        and not estimates.settled(seen, noise, effect=effect)
    ]
    return [base, base + AGAIN, *open_ones] if open_ones else []


def _examiner(race: Race, questions: Sequence[Batch], judge: Judge, base: str) -> Examine:
    """Lets a participant that has just been under load answer what is known, and takes it out when it answers differently from `base`."""

    def examine(name: str, worker: WorkerProcess) -> None:
        if name.removesuffix(AGAIN) == base:
            return
        if reason := judge(name, worker.answer(questions)):
            race.judge(name, Status.WRONG, f"after it was under load it answers differently from eager: {reason}")

    return examine


def _refuse_leaks(race: Race, settings: Benchmark, size: int) -> None:
    """Try those whose memory grew, or was seen too seldom, for longer: caches grow too, but ever more slowly; a leak goes on."""
    for name in race.left():
        growth = race.found[name].growth()
        if growth.low <= settings.max_growth_bytes if growth else len(race.found[name].samples(size)) < estimates.ENOUGH["p50_ms"]:
            continue
        seconds = min(_ENDURANCE_S, settings.max_seconds / 6)
        growth = estimates.lasting_slope(race.watch_memory(name, size=size, seconds=seconds))
        if growth and growth.low > settings.max_growth_bytes and name in race.left():
            reason = (
                f"its memory grows by {growth.value:,.0f} bytes per 1,000 requests (at least {growth.low:,.0f}; the limit is "
                f"{settings.max_growth_bytes:,}): it would fill a server, so it cannot be chosen"
            )
            race.judge(name, Status.LEAKS, reason)


def _parts(count: int, thread_count: int, available: Sequence[int]) -> list[Sequence[int]]:
    """The cores of each of `count` processes; nothing where there are not enough for all."""
    parts = [available[place * thread_count :][:thread_count] for place in range(count)]
    return parts if len(parts[-1]) == thread_count else []


def _scale_processes(race: Race, names: Sequence[str], parts: Mapping[int, Sequence[Sequence[int]]], size: int, *, deadline: float) -> None:
    """Throughput of several processes of one participant, as a server runs them, for as long as there is time; the baselines last."""
    cost_s = 0.0
    for count, cores in parts.items():
        for name in reversed(names):
            start = time.monotonic()
            if start + cost_s > deadline:
                return
            if len(cores) > 1 and name in race.left():  # one alone was seen before
                race.run_together(name, cores, size=size, seconds=_TOGETHER_S)
                cost_s = max(cost_s, (time.monotonic() - start) * (count + 1) / count)
