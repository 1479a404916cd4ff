"""Examine a specimen and compare the result with the expected one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.zoo.specimen import PROVEN, Specimen
from paddleship.doctor import examining
from paddleship.doctor.examination import Examination, RuntimeRow
from paddleship.reports.finding import Finding

_SECONDS = 300.0  # time limit of one examination; the machine may be busy with others

# About a runtime that is not proven, not about the model.
_OF_RUNTIMES = {
    *("unsupported-operator", "conversion-failed", "crash", "hang", "another-form", "not-finite", "shape-specific"),
    *("thread-specific", "not-deterministic", "batch-variant", "wrong-layer", "wrong-pass", "wrong-answers"),
}


@dataclass(frozen=True)
class Observation:
    """The result for one specimen; truthy if it is as expected."""

    specimen: Specimen
    findings: list[Finding] = field(repr=False)
    runtimes: dict[str, RuntimeRow]
    misses: list[str]
    seconds: float

    def __bool__(self) -> bool:
        return not self.misses

    @property
    def found(self) -> str:
        """The expected finding if there is one, otherwise the most important finding."""
        kinds = [finding.kind for finding in self.findings if finding.severity != "note"]
        if self.specimen.finding in kinds:
            return self.specimen.finding
        return kinds[0] if kinds else PROVEN if _proven(self.runtimes, "paddle") else "nothing"


def examine(specimen: Specimen, work: Path) -> tuple[Examination, float]:
    """The examination of the specimen, as by `paddleship doctor`, and its seconds."""
    start = time.monotonic()
    return examining.examine(specimen.model, work=work, seconds=_SECONDS), time.monotonic() - start


def observe(specimen: Specimen, examination: Examination, seconds: float) -> Observation:
    """Compare the examination with the expectations; from one thread only, because Python 3.11 cannot parse in two threads."""
    missed = list(misses(specimen, examination.findings, examination.runtimes))
    return Observation(specimen, examination.findings, examination.runtimes, missed, seconds)


def misses(specimen: Specimen, findings: list[Finding], runtimes: dict[str, RuntimeRow]) -> Iterator[str]:
    """The missed expectations, as text: the finding, its line, the runtimes, and unexpected findings."""
    alike = [finding for finding in findings if finding.kind == specimen.finding]
    if specimen.finding and not alike:
        yield f"{specimen.finding} was not found"
    place = specimen.place()
    if alike and place and not any(_place(finding) == place for finding in alike):
        yield f"{specimen.finding} at {', '.join(str(_place(finding)) for finding in alike)}, the mark is at {place}"
    yield from (f"{name} is not proven" for name in specimen.proven if not _proven(runtimes, name))
    yield from (f"{name} is proven, and is wrong" for name in specimen.refused if _proven(runtimes, name))
    excused = {specimen.finding, *specimen.also}
    if not all(_proven(runtimes, name) for name in runtimes):
        excused |= _OF_RUNTIMES
    yield from (f"false alarm: {finding}" for finding in findings if finding.severity != "note" and finding.kind not in excused)


def _place(finding: Finding) -> str | None:
    return Path(finding.where).name if finding.where else None


def _proven(runtimes: dict[str, RuntimeRow], name: str) -> bool:
    return name in runtimes and runtimes[name].status == PROVEN
