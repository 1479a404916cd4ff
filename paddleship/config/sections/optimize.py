"""The section `optimize`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from paddleship.config.sections.section import Positive, Seconds, Section


class Optimize(Section):
    candidates: Annotated[list[str], Field(min_length=1)] | None = Field(
        None, description="candidates by name; null: all that are installed and run on this machine"
    )
    threads: Positive = Field(1, description="most threads of a candidate; tuning may choose fewer")
    calibration_rows: Positive = Field(128, description="training rows that calibrate the int8 candidates")
    tune_seconds: Annotated[float, Field(ge=0)] = Field(
        2, description="of measuring settings, for each candidate, loading not counted; 0: keep the defaults"
    )
    timeout_s: Seconds = Field(300, description="time limit of making one candidate")
