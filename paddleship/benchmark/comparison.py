"""The result of a benchmark: speedups with intervals, differences, and warnings."""

from __future__ import annotations

from dataclasses import dataclass

from paddleship.benchmark.sampling import Measurement, speedup
from paddleship.benchmark.system_metrics import OtherLoad
from paddleship.statistics import estimates
from paddleship.statistics.estimates import Difference, Interval

AGAIN = " again"  # suffix of the baseline's second process

_BUSY, _STOLEN = 0.1, 0.02  # shares of the machine's processor time above which there is a warning


@dataclass(frozen=True)
class Comparison:
    """The measurements of a benchmark; `size` is the batch size by which latency is judged.

    `again` is the second process of the baseline. `others` is the load of other processes. `pinned`: the participants were pinned to cores
    and left some for the rest of the machine. `left_out` is what there was no time or room for.
    """

    found: dict[str, Measurement]
    again: Measurement
    baseline: str
    size: int
    effect: float
    others: OtherLoad
    pinned: bool
    starts: int
    seconds: float
    left_out: tuple[str, ...] = ()

    @property
    def aa_ratio(self) -> Interval | None:
        """The ratio of the baseline to itself in a second process."""
        return speedup(self.found[self.baseline], self.again, self.size)

    def speedup(self, name: str) -> Interval | None:
        """How many times faster than the baseline; None if one of the two was not measured."""
        return speedup(self.found[self.baseline], self.found[name], self.size)

    def difference(self, name: str) -> Difference | None:
        """Better or worse than the baseline by at least `effect`, or cannot tell."""
        found = self.speedup(name)
        return estimates.difference(found, self.aa_ratio, effect=self.effect) if found and name != self.baseline else None

    def disturbed(self, limit: float) -> str | None:
        """Why the figures are not valid: other load took more than `limit` of the processor time; None if it took less."""
        lost = self.others.busy_share + self.others.stolen_share
        if lost <= limit:
            return None
        return (
            f"other processes used {self.others.busy_share:.0%} of this machine's processor time and the hypervisor "
            f"{self.others.stolen_share:.0%} (steal), together more than benchmark.max_busy_share ({limit:.0%})"
        )

    def warnings(self) -> list[str]:
        """What makes the figures less reliable, each with the next step."""
        said = []
        if self.others.busy_share > _BUSY:
            said.append(
                f"other processes used {self.others.busy_share:.0%} of this machine's processor time: stop them and run `paddleship run "
                "--again benchmark`"
            )
        if self.others.stolen_share > _STOLEN:
            said.append(
                f"the hypervisor used {self.others.stolen_share:.0%} of this virtual machine's processor time (steal): use a machine with "
                "dedicated cores"
            )
        if not self.pinned:
            said.append(
                "the participants shared their cores with the measuring process: use a machine with more cores than optimize.threads"
            )
        restless = [name for name, found in self.found.items() if 2 * found.unstable_warmups > len(found.warmup_s)]
        if restless:
            said.append(
                f"{', '.join(restless)} did not reach a stable latency in most warm-ups: raise benchmark.warmup_s, or use a "
                "machine with less other load"
            )
        undecided = [name for name in self.found if self.difference(name) == Difference.CANNOT_TELL]
        if undecided:
            said.append(
                f"not decided whether {', '.join(undecided)} is {self.effect:.0%} faster or slower than {self.baseline}: raise "
                "benchmark.max_seconds, if that matters"
            )
        return [*said, *self.left_out]
