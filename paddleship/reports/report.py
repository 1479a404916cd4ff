"""What a stage leaves behind: one JSON file that says what was measured and decided."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from paddleship.reports.finding import Finding, Severity
from paddleship.reports.verdict import Check, Verdict
from paddleship.shipped.common.files import write_text

SCHEMA_VERSION = 1
_GATE = "verify.fail_on"


class Report(BaseModel):
    """The evidence of one stage.

    `headline` is the one figure a person wants to see, in words. `metrics` are flat and carry their unit
    in the name. `findings` are what the stage found out about the data, the model or what ships; those about a candidate
    that is not used stay in its row. `candidates` holds one flat row per candidate with the same keys in each, `facts`
    whatever else explains the numbers, `pictures` paths relative to the report's folder.
    """

    model_config = ConfigDict(extra="forbid")

    schema_version: int = SCHEMA_VERSION
    stage: str
    headline: str
    metrics: dict[str, float | int] = Field(default_factory=dict)
    verdict: Verdict
    findings: list[Finding] = Field(default_factory=list)
    candidates: dict[str, dict[str, Any]] = Field(default_factory=dict)
    facts: dict[str, Any] = Field(default_factory=dict)
    pictures: list[str] = Field(default_factory=list)
    host: dict[str, str] = Field(default_factory=dict)
    started_at: datetime | None = None
    seconds: float = 0

    @property
    def outcome(self) -> str:
        """The verdict with the number of errors and warnings: `passed, 1 warning`."""
        words = ["passed" if self.verdict else "failed"]
        words += [_count(number, severity) for severity in ("error", "warning") if (number := self.count(severity))]
        return ", ".join(words)

    def count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    def serious(self) -> list[Finding]:
        """The findings that a person must see, errors first; notes only explain."""
        return [finding for severity in ("error", "warning") for finding in self.findings if finding.severity == severity]

    def gate(self, kinds: Sequence[str]) -> None:
        """Let the verdict fail where there is a finding of one of these kinds, whatever its severity."""
        if not kinds:
            return
        checks = [
            Check(name=_GATE, measured=str(finding).split("\n")[0], limit="none of this kind", passed=False, advice=finding.advice)
            for finding in self.findings
            if finding.kind in kinds
        ]
        none = Check(name=_GATE, measured="none found", limit=f"no finding of {', '.join(kinds)}", passed=True)
        self.verdict = Verdict(checks=[*self.verdict.checks, *(checks or [none])])

    def write(self, folder: Path) -> None:
        """Write `<stage>.json` and, for `dvc metrics`, `<stage>.metrics.json` with the flat numbers alone."""
        write_text(folder / f"{self.stage}.metrics.json", json.dumps(self.metrics, indent=1) + "\n")
        write_text(folder / f"{self.stage}.json", self.model_dump_json(indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path, stage: str) -> Report:
        return cls.model_validate_json((folder / f"{stage}.json").read_text())


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
