"""What a stage leaves behind: one JSON file that says what was measured and decided."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from paddleship.files import write_text
from paddleship.verdict import Verdict

SCHEMA_VERSION = 1


class Report(BaseModel):
    """The evidence of one stage.

    `headline` is the one figure a person wants to see, in words. `metrics` are flat and carry their unit
    in the name. `candidates` holds one flat row per candidate with the same keys in each, `facts` whatever
    else explains the numbers, `pictures` paths relative to the report's folder.
    """

    model_config = ConfigDict(extra="forbid")

    schema_version: int = SCHEMA_VERSION
    stage: str
    headline: str
    metrics: dict[str, float | int] = Field(default_factory=dict)
    verdict: Verdict
    candidates: dict[str, dict[str, Any]] = Field(default_factory=dict)
    facts: dict[str, Any] = Field(default_factory=dict)
    pictures: list[str] = Field(default_factory=list)
    host: dict[str, str] = Field(default_factory=dict)
    started_at: datetime | None = None
    seconds: float = 0

    def write(self, folder: Path) -> None:
        """Write `<stage>.json` and, for `dvc metrics`, `<stage>.metrics.json` with the flat numbers alone."""
        write_text(folder / f"{self.stage}.metrics.json", json.dumps(self.metrics, indent=1) + "\n")
        write_text(folder / f"{self.stage}.json", self.model_dump_json(indent=1) + "\n")

    @classmethod
    def read(cls, folder: Path, stage: str) -> Report:
        return cls.model_validate_json((folder / f"{stage}.json").read_text())
