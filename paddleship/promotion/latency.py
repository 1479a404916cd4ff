"""Champion and challenger side by side, asked as clients do: which one is faster, or that the samples cannot tell.

Both images run at the same time under the same limits and are asked in interleaved blocks of single rows. A second container of
the champion's image shows what two containers of one image differ by: only a difference beyond that counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np

from paddleship.acceptance.load import LoadResult, closed_loop
from paddleship.acceptance.transport import Client
from paddleship.reports.verdict import Check
from paddleship.statistics import estimates
from paddleship.statistics.estimates import Difference, Interval
from paddleship.system.progress import Progress

CHAMPION, AGAIN, CHALLENGER = "champion", "champion again", "challenger"
NAMES = (CHAMPION, AGAIN, CHALLENGER)
STARTS, BLOCKS, _REQUESTS = 3, 8, 48  # containers of one image differ, so all are started several times; blocks are of one start
_WARM_UP = 64

Connect = Callable[[], Client]
Servers = Callable[[], AbstractContextManager[Mapping[str, Connect]]]


@dataclass
class Race:
    """All samples in ms, and the medians of each block as logarithms, by participant and start."""

    samples: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in NAMES})
    blocks: dict[str, list[list[float]]] = field(default_factory=lambda: {name: [] for name in NAMES})
    failures: list[str] = field(default_factory=list)

    def note(self, name: str, load: LoadResult) -> None:
        self.samples[name] += load.samples_ms
        self.failures += [f"{name}: {failure}" for failure in load.failures]
        if load.samples_ms:
            self.blocks[name][-1].append(math.log(np.median(load.samples_ms)))

    def ratio(self, slower: str, faster: str) -> Interval | None:
        """The speedup of `faster`; None if a request was not answered."""
        if self.failures:
            return None
        return estimates.ratio(
            [[one - other for one, other in zip(*pair, strict=True)] for pair in zip(self.blocks[slower], self.blocks[faster], strict=True)]
        )

    def typical_ms(self) -> dict[str, Interval]:
        """The median of a block of each participant, with its interval; empty if a request was not answered."""
        return {} if self.failures else {name: estimates.ratio(blocks) for name, blocks in self.blocks.items()}


@dataclass(frozen=True)
class Latency:
    """The challenger's speedup over the champion, the champion's ratio to itself, and the verdict; None with failures.

    `p50_ms` are medians of all samples, `typical_ms` those of blocks with their intervals.
    """

    speedup: Interval | None
    aa_ratio: Interval | None
    verdict: Difference | None
    p50_ms: Mapping[str, float]
    failures: tuple[str, ...]
    typical_ms: Mapping[str, Interval] = field(default_factory=dict)

    def metrics(self) -> dict[str, float]:
        metrics = {f"{name.replace(' ', '_')}_p50_ms": value for name, value in self.p50_ms.items()}
        if self.speedup and self.aa_ratio:
            low, high = self.speedup.low, self.speedup.high
            metrics |= {"champion_speedup": self.speedup.value, "champion_speedup_low": low, "champion_speedup_high": high}
            metrics["champion_aa_ratio"] = self.aa_ratio.reach
        return metrics

    def __str__(self) -> str:
        if self.speedup is None or self.aa_ratio is None:
            return f"not measured: {self.failures[0]}"
        return (
            f"{self.verdict} ({self.speedup.value:.2f}× as fast as the champion, 95% interval {self.speedup.low:.2f} to "
            f"{self.speedup.high:.2f}; the champion against itself: within {self.aa_ratio.reach:.2f}×)"
        )


def race(servers: Servers, bodies: Sequence[bytes], *, effect: float, seconds: float) -> Latency:
    """Start the servers several times and ask them in turn, for about `seconds` of requests."""
    each_s = seconds / (STARTS * BLOCKS * len(NAMES))
    results, progress = Race(), Progress("measuring latency", STARTS * BLOCKS, "blocks")
    for start in range(STARTS):
        with servers() as connects:
            for name in NAMES:
                results.blocks[name].append([])
                closed_loop(connects[name], bodies, requests=_WARM_UP, concurrency=1, seconds=each_s)
            for block in range(BLOCKS):
                for turn in range(len(NAMES)):
                    name = NAMES[(start + block + turn) % len(NAMES)]
                    results.note(name, closed_loop(connects[name], bodies, requests=_REQUESTS, concurrency=1, seconds=each_s))
                progress.advance()
        if results.failures:
            break
    speedup, aa_ratio = results.ratio(CHAMPION, CHALLENGER), results.ratio(CHAMPION, AGAIN)
    verdict = estimates.difference(speedup, aa_ratio, effect=effect) if speedup else None
    p50 = {name: float(np.median(samples)) for name, samples in results.samples.items() if samples}
    return Latency(speedup, aa_ratio, verdict, p50, tuple(results.failures), results.typical_ms())


def check(latency: Latency, *, allow_slower: bool) -> Check:
    """The gate: the challenger is better or not measurably different, and every request was answered."""
    allowed = [verdict for verdict in Difference if verdict != Difference.WORSE or allow_slower]
    return Check(
        name="latency_against_champion",
        measured=str(latency),
        limit=" or ".join(allowed),
        passed=latency.verdict in allowed,
        advice="choose a faster candidate, or set promote.allow_slower: true",
    )
