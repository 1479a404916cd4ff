"""Latency, throughput, memory and cold start of several contestants, side by side on the machine as it is now.

Every ratio is taken between blocks that lay next to each other, against a baseline that runs in the same race; the
baseline runs twice, and what it shows against itself is what no verdict may be built on. Samples go on, for those that
are not decided, until `max_seconds`. Not covered: the network, and several models on one machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from paddleship import host, statistics, vitals
from paddleship.contestant import Engine, loop
from paddleship.params import Benchmark
from paddleship.preprocess import Batch
from paddleship.progress import Progress
from paddleship.runtimes import Arrays
from paddleship.sampling import Load, Measurement, Race, speedup
from paddleship.seat import Seat
from paddleship.statistics import Interval, Word
from paddleship.vitals import Others

AGAIN = " again"  # the baseline's second process

_CURVE_BLOCKS = 4
_CURVE_SHARE, _CROWD_SHARE = 0.2, 0.2  # of max_seconds
_CROWD_S = 0.5
_ENDURANCE_S = 5.0
_BUSY, _STOLEN = 0.1, 0.02  # shares of the machine above which others disturb

Judge = Callable[[str, list[Arrays]], str]
"""judge(name, answers): why these answers to the questions are wrong; empty when they are not."""
Examine = Callable[[str, Seat], None]


@dataclass(frozen=True)
class Comparison:
    """What a race found; `size` is the batch size by which latency is judged.

    `again` is the baseline in its second process, `others` who else worked on the machine, `pinned` whether the
    contestants had cores of their own.
    """

    found: dict[str, Measurement]
    again: Measurement
    baseline: str
    size: int
    effect: float
    others: Others
    pinned: bool
    starts: int
    seconds: float

    @property
    def noise(self) -> Interval | None:
        """The baseline against itself: what this machine shows now where there is no difference."""
        return speedup(self.found[self.baseline], self.again, self.size)

    def speedup(self, name: str) -> Interval | None:
        """How many times faster than the baseline; None where one of the two was not measured."""
        return speedup(self.found[self.baseline], self.found[name], self.size)

    def verdict(self, name: str) -> Word | None:
        """Against the baseline, at the stated size of effect."""
        found = self.speedup(name)
        return statistics.verdict(found, self.noise, effect=self.effect) if found and name != self.baseline else None

    def warnings(self) -> list[str]:
        """What makes these figures worth less, each with what to do."""
        said = []
        if self.others.busy_share > _BUSY:
            said.append(
                f"other processes took {self.others.busy_share:.0%} of the machine's processor time: end them, and measure again "
                "with `dvc repro -f benchmark`"
            )
        if self.others.stolen_share > _STOLEN:
            said.append(
                f"the host kept {self.others.stolen_share:.0%} of this virtual machine's processor time: use one with cores of its own"
            )
        if not self.pinned:
            said.append("the contestants shared cores with what measures them: give the machine a core more than optimize.threads")
        undecided = [name for name in self.found if self.verdict(name) == "cannot tell"]
        if undecided:
            said.append(
                f"{', '.join(undecided)} cannot be told from {self.baseline} at {self.effect:.0%}: raise benchmark.max_seconds, "
                "if a smaller difference matters"
            )
        return said


def compare(
    contestants: Mapping[str, Load],
    batches: Mapping[int, Sequence[Batch]],
    settings: Benchmark,
    *,
    thread_count: int,
    baseline: str | None = None,
    questions: Sequence[Batch] = (),
    judge: Judge | None = None,
    engine: Engine = loop,
) -> Comparison:
    """Measure all contestants against `baseline` (the first one), within about `max_seconds`.

    One that dies, hangs, leaks, or whose answers to `questions` `judge` has something to say about, keeps its
    reason and loses its samples; the rest go on.
    """
    began, bystander = time.monotonic(), vitals.Bystander()
    base = baseline or next(iter(contestants))
    with vitals.apart(thread_count) as cores:
        everyone = {**contestants, base + AGAIN: contestants[base]}
        race = Race(everyone, batches, settings, thread_count=thread_count, cores=cores, engine=engine)
        starts = _run(race, batches, settings, base, _examiner(race, questions, judge) if judge else None, began=began)
        _refuse_leaks(race, settings, next(iter(batches)))
        _crowds(
            race,
            [name for name in contestants if name in race.left()],
            batches,
            settings,
            thread_count,
            deadline=began + settings.max_seconds,
        )
    found = dict(race.found)
    again = found.pop(base + AGAIN)
    size, pinned = next(iter(batches)), bool(cores) and thread_count < len(host.core_numbers())
    return Comparison(found, again, base, size, settings.effect, bystander.seen(), pinned, starts, time.monotonic() - began)


def _run(
    race: Race, batches: Mapping[int, Sequence[Batch]], settings: Benchmark, base: str, examine: Examine | None, *, began: float
) -> int:
    """All starts of all contestants, then further ones of those that are not decided; how many starts there were."""
    size, *others = batches
    blocks = -(-settings.blocks // settings.starts)
    curve_s = settings.max_seconds * _CURVE_SHARE / max(len(others), 1)
    end = began + settings.max_seconds * (1 - _CROWD_SHARE * bool(settings.concurrency))
    progress = Progress("measuring", settings.starts, "starts")
    wanted: Sequence[str] = list(race.found)
    starts, last_s = 0, 0.0
    while starts == 0 or (wanted and time.monotonic() + last_s < end):
        start = time.monotonic()
        first = starts == 0
        left = max(1, settings.starts - starts)
        sizes = {size: blocks, **(dict.fromkeys(others, _CURVE_BLOCKS) if first else {})}
        seconds = {size: (end - start) / left / 2, **dict.fromkeys(others, curve_s)}
        race.round(wanted, blocks=sizes, seconds=seconds, examine=examine)
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
        and not statistics.settled(seen, noise, effect=effect)
    ]
    return [base, base + AGAIN, *open_ones] if open_ones else []


def _examiner(race: Race, questions: Sequence[Batch], judge: Judge) -> Examine:
    """Lets a contestant that has just been under load answer what is known, and takes it out when it answers otherwise."""

    def examine(name: str, seat: Seat) -> None:
        reason = judge(name.removesuffix(AGAIN), seat.answer(questions))
        if reason:
            race.found[name].fail("wrong", f"after it was under load it answers otherwise than eager: {reason}")

    return examine


def _refuse_leaks(race: Race, settings: Benchmark, size: int) -> None:
    """Try those whose memory grew for longer: caches and allocators grow too, but ever more slowly; a leak goes on."""
    for name in race.left():
        growth = race.found[name].growth()
        if growth is None or growth.low <= settings.max_growth_bytes:
            continue
        seconds = min(_ENDURANCE_S, settings.max_seconds / 6)
        growth = statistics.lasting_slope(race.endure(name, size=size, seconds=seconds))
        if growth and growth.low > settings.max_growth_bytes and name in race.left():
            race.found[name].status = "leaks"  # its samples stay: it may be a baseline, and what it would gain is worth knowing
            race.found[name].reason = (
                f"its memory grows by {growth.value:,.0f} bytes per 1,000 requests (at least {growth.low:,.0f}; the limit is "
                f"{settings.max_growth_bytes:,}): it would fill a server, so it cannot be chosen"
            )


def _crowds(
    race: Race,
    names: Sequence[str],
    batches: Mapping[int, Sequence[Batch]],
    settings: Benchmark,
    thread_count: int,
    *,
    deadline: float,
) -> None:
    """Throughput of several processes of one contestant, as a server runs them; sizes and counts that fit the machine and the time."""
    available = host.core_numbers()
    counts = [count for count in settings.concurrency if count * thread_count <= len(available)]
    size = next(iter(batches))
    cost_s = 0.0
    for name in names:
        for count in counts:
            start = time.monotonic()
            if start + cost_s > deadline:
                return
            race.crowd(name, count, available[: count * thread_count], size=size, seconds=_CROWD_S)
            cost_s = max(cost_s, time.monotonic() - start)
