"""The result of `paddleship doctor`: whether the model converts, what prevents it, and which runtimes are proven."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from paddleship.reports.finding import Finding
from paddleship.reports.statuses import Status


class Outcome(StrEnum):
    """The outcome for the whole model."""

    CONVERTIBLE = "convertible"
    WITH_WARNINGS = "convertible with warnings"
    NOT_CONVERTIBLE = "not convertible"
    NOT_EXERCISED = Status.NOT_EXERCISED.value  # every runtime that agreed with eager did so for outputs that did not vary
    LATE = Status.LATE.value  # no runtime is proven, and not all were judged


OUT_OF_TIME = "out-of-time"  # the kind of a finding

_EXIT_CODES = {Outcome.CONVERTIBLE: 0, Outcome.WITH_WARNINGS: 1, Outcome.NOT_CONVERTIBLE: 2, Outcome.NOT_EXERCISED: 3, Outcome.LATE: 3}
_EACH_KEPT = frozenset({"unused-input", "assumed-range", "crash"})
_GRAVITY = ("error", "warning", "note")
_GOOD = (Status.PROVEN, Status.NOT_EXERCISED)
_KNOWN = (*_GOOD, Status.FAILED, Status.NOT_MADE)


@dataclass(frozen=True)
class RuntimeRow:
    """One runtime: proven, or the reason why not; not exercised if it agreed with eager although outputs did not vary.

    `noise_ratio` is 1 for an error as large as eager's own.
    """

    status: Status
    reason: str = ""
    noise_ratio: float | None = None


@dataclass(frozen=True)
class Examination:
    """The result for one model. `full_graph`: it became one static program. `unavailable` are runtimes that cannot run here, and why."""

    factory: str
    findings: list[Finding]
    runtimes: dict[str, RuntimeRow] = field(default_factory=dict)
    full_graph: bool = False
    seconds: float = 0.0
    unavailable: dict[str, str] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        errors = {finding.kind for finding in self.findings if finding.severity == "error"}
        if errors - {OUT_OF_TIME}:
            return Outcome.NOT_CONVERTIBLE
        if errors:
            return Outcome.LATE
        if not any(row.status in _GOOD for row in self.runtimes.values()):
            return Outcome.NOT_CONVERTIBLE
        if not any(row.status == Status.PROVEN for row in self.runtimes.values()):
            return Outcome.NOT_EXERCISED
        doubts = any(finding.severity == "warning" for finding in self.findings) or any(
            row.status != Status.PROVEN for row in self.runtimes.values()
        )
        return Outcome.WITH_WARNINGS if doubts else Outcome.CONVERTIBLE

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self.outcome]

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "model": self.factory,
            "outcome": self.outcome,
            "exit_code": self.exit_code,
            "headline": self.headline,
            "full_graph": self.full_graph,
            "runtimes": {name: asdict(row) for name, row in self.runtimes.items()},
            "unavailable": self.unavailable,
            "findings": [finding.to_dict() for finding in self.findings],
            "seconds": round(self.seconds, 1),
        }

    @property
    def headline(self) -> str:
        """The outcome in one line; after a time-out also what is known by then."""
        counts = [f"{count} {word}{'s' * (count != 1)}" for word in _GRAVITY if (count := self._count(word))]
        line = f"{self.factory}: {self.outcome}" + (f" ({', '.join(counts)})" if counts else "") + f", {self.seconds:.0f} s"
        late = self._with(Status.LATE)
        if not late or (len(late) == len(self.runtimes) and not self.full_graph):
            return line
        known = ["converts to one static graph"] if self.full_graph else []
        known += [f"{status} in {', '.join(names)}" for status in _KNOWN if (names := self._with(status))]
        return f"{line}: {'; '.join([*known, f'{Status.LATE}: ' + ', '.join(late)])}"

    def __str__(self) -> str:
        lines = [self.headline, ""]
        lines.append(f"  full graph     {'yes' if self.full_graph else 'no'}")
        for name, row in self.runtimes.items():
            detail = f"noise ratio {row.noise_ratio:.2f}" if row.noise_ratio is not None and row.status == Status.PROVEN else ""
            lines.append(f"  {name:14} {row.status}" + "".join(f"; {part}" for part in (detail, row.reason) if part))
        lines += [f"  not tried      {name}: {reason}" for name, reason in self.unavailable.items()]
        for finding in self.findings:
            lines += ["", *str(finding).splitlines()]
        return "\n".join(lines).replace(f"{Path.cwd()}/", "")  # relative paths, as a person types them

    def _with(self, status: Status) -> list[str]:
        return [name for name, row in self.runtimes.items() if row.status == status]

    def _count(self, severity: str) -> int:
        return sum(finding.severity == severity for finding in self.findings)


def by_gravity(findings: Sequence[Finding]) -> list[Finding]:
    """Errors first; of two findings of the same kind and location only the more severe. Each input keeps its own, and each crash."""
    gravest: dict[tuple[str, str | None, str | None], Finding] = {}
    for finding in sorted(findings, key=lambda finding: _GRAVITY.index(finding.severity)):
        of = finding.message if finding.kind in _EACH_KEPT else finding.layer if finding.where is None else None
        gravest.setdefault((finding.kind, finding.where, of), finding)
    return list(gravest.values())
