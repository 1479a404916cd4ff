"""The report of a stage: one JSON file with what was measured and decided."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from paddleship.reports.finding import Finding, Severity
from paddleship.reports.verdict import Verdict
from paddleship.shipped.computing.files import write_text

SCHEMA_VERSION = 1


class Report(BaseModel):
    """The report of one stage.

    `headline` is the most important result, as text. `metrics` are flat, with the unit in the name. `findings` are about the data,
    the model or what ships; findings about a candidate that is not used are in its row. `candidates` has one flat row for each
    candidate, with the same keys. `facts` holds everything else that explains the numbers, `pictures` paths relative to the
    report's folder.
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
        parts = ["passed" if self.verdict else "failed"]
        parts += [_count(number, severity) for severity in ("error", "warning") if (number := self.count(severity))]
        return ", ".join(parts)

    def count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    def serious(self) -> list[Finding]:
        """The errors and warnings, errors first."""
        return [finding for severity in ("error", "warning") for finding in self.findings if finding.severity == severity]

    def write(self, folder: Path) -> None:
        """Write `<stage>.json`, and `<stage>.metrics.json` with the flat numbers for `dvc metrics`."""
        write_text(folder / f"{self.stage}.metrics.json", json.dumps(self.metrics, indent=1) + "\n")
        write_text(folder / f"{self.stage}.json", self.model_dump_json(indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path, stage: str) -> Report:
        return cls.model_validate_json((folder / f"{stage}.json").read_text(encoding="utf-8"))


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
