"""The result of a benchmark: speedups with intervals, differences, and findings."""

from __future__ import annotations

from dataclasses import dataclass

from paddleship.benchmark.sampling import Measurement, speedup
from paddleship.benchmark.system_metrics import OtherLoad
from paddleship.reports.finding import Finding
from paddleship.statistics import estimates
from paddleship.statistics.estimates import Difference, Interval

AGAIN = " again"  # suffix of the baseline's second process

_BUSY, _STOLEN = 0.1, 0.02  # shares of the machine's processor time above which there is a warning
_AGAIN = "stop them and run `paddleship run --again benchmark`"


def is_disturbed(busy_share: float, stolen_share: float, limit: float, *, gpu_processes: int = 0) -> bool:
    """Whether others, with the hypervisor, took more than `limit` of the processor time, or another process was on the GPU."""
    return busy_share + stolen_share > limit or gpu_processes > 0


@dataclass(frozen=True)
class Comparison:
    """The measurements of a benchmark; `size` is the batch size by which latency is judged.

    `again` is the second process of the baseline. `others` is the load of other processes. `pinned`: the participants were pinned to cores
    and left some for the rest of the machine. `left_out` is what there was no time or room for.
    """

    measurements: dict[str, Measurement]
    again: Measurement
    baseline: str
    size: int
    effect: float
    others: OtherLoad
    pinned: bool
    starts: int
    seconds: float
    left_out: tuple[Finding, ...] = ()

    @property
    def aa_ratio(self) -> Interval | None:
        """The ratio of the baseline to itself in a second process."""
        return speedup(self.measurements[self.baseline], self.again, self.size)

    def speedup(self, name: str) -> Interval | None:
        """How many times faster than the baseline; None if one of the two was not measured."""
        return speedup(self.measurements[self.baseline], self.measurements[name], self.size)

    def speedups_of(self, name: str) -> dict[str, dict[str, float]]:
        """How many times faster a participant is than each other one, by name, with its 95% interval."""
        own = self.measurements[name]
        ratios = {other: speedup(measurement, own, self.size) for other, measurement in self.measurements.items() if other != name}
        return {other: {"ratio": ratio.value, "low": ratio.low, "high": ratio.high} for other, ratio in ratios.items() if ratio}

    def difference(self, name: str) -> Difference | None:
        """Better or worse than the baseline by at least `effect`, or cannot tell."""
        speedup = self.speedup(name)
        return estimates.difference(speedup, self.aa_ratio, effect=self.effect) if speedup and name != self.baseline else None

    def disturbed(self, limit: float) -> bool:
        """Whether other load took more than `limit` of the processor time, or was on the GPU, so that the figures are not valid."""
        others = self.others
        return is_disturbed(others.busy_share, others.stolen_share, limit, gpu_processes=others.gpu_processes)

    def findings(self, limit: float) -> list[Finding]:
        """What makes the figures invalid or less reliable, and what was not measured."""
        findings = self._other_load(limit)
        if not self.pinned:
            message = "the participants shared their cores with the measuring process"
            findings.append(Finding("imprecise", "warning", message, "use a machine with more cores than optimize.threads"))
        if restless := [name for name, one in self.measurements.items() if 2 * one.unstable_warmups > len(one.warmup_s)]:
            message = f"{', '.join(restless)} did not reach a stable latency in most warm-ups"
            findings.append(Finding("imprecise", "warning", message, "raise benchmark.warmup_s, or use a machine with less other load"))
        if undecided := [name for name in self.measurements if self.difference(name) == Difference.CANNOT_TELL]:
            message = f"not decided whether {', '.join(undecided)} is {self.effect:.0%} faster or slower than {self.baseline}"
            findings.append(Finding("imprecise", "note", message, "raise benchmark.max_seconds, if that matters"))
        return [*findings, *self.left_out]

    def _other_load(self, limit: float) -> list[Finding]:
        busy, stolen = self.others.busy_share, self.others.stolen_share
        if count := self.others.gpu_processes:
            message = f"{count} other process{'es' * (count != 1)} computed on the GPU before or after the measurement"
            return [Finding("disturbed", "warning", message, f"{_AGAIN}; the choice stands, but do not rely on the figures")]
        if self.disturbed(limit):
            message = (
                f"other processes used {busy:.0%} of this machine's processor time and the hypervisor {stolen:.0%} (steal), together more "
                f"than benchmark.max_busy_share ({limit:.0%})"
            )
            return [Finding("disturbed", "warning", message, f"{_AGAIN}; the choice stands, but do not rely on the figures")]
        findings = []
        if busy > _BUSY:
            findings.append(Finding("imprecise", "warning", f"other processes used {busy:.0%} of this machine's processor time", _AGAIN))
        if stolen > _STOLEN:
            message = f"the hypervisor used {stolen:.0%} of this virtual machine's processor time (steal)"
            findings.append(Finding("imprecise", "warning", message, "use a machine with dedicated cores"))
        return findings
