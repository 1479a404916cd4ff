"""The section `verify`: the limits of the proof."""

from __future__ import annotations

import difflib
from typing import Annotated

from pydantic import Field, field_validator

from paddleship.config.sections.section import Positive, Seconds, Section
from paddleship.reports.finding import KINDS


class Verify(Section):
    samples: Positive = Field(256, description="held-out rows whose answers are compared")
    max_batch: Positive = Field(32, description="largest number of rows of one request")
    noise_limit: Annotated[float, Field(gt=0)] = Field(
        8, description="largest error of a float32 candidate, in units of eager float32's own error"
    )
    typical_limit: Annotated[float, Field(gt=0)] = Field(3, description="the same for the root mean square error")
    invariance_limit: Annotated[float, Field(gt=0)] = Field(
        2, description="largest change when rows are asked again or by several callers, and of the exported program on eager's kernels"
    )
    max_flip_rate: Annotated[float, Field(ge=0, le=1)] = Field(0.02, description="share of decisions that a lower precision may change")
    max_metric_drop: Annotated[float, Field(ge=0)] = Field(0.01, description="accuracy (or R²) that a lower precision may lose")
    fail_on: list[str] = Field([], description="kinds of findings (paddleship/reports/finding.py) that fail a stage")
    require_branch_coverage: bool = Field(False, description="fail if no input takes a side of a data-dependent if or loop")
    layers: bool = Field(False, description="plot the error of every layer also for candidates that passed")
    training: bool = Field(False, description="also compare a few steps of training, eager and to_static")
    training_steps: Positive = Field(8, description="training steps that are compared, with training")
    threads: Positive = Field(4, description="concurrent callers of a candidate")
    timeout_s: Seconds = Field(300, description="time limit of loading a model, and of each call of its process")

    @field_validator("fail_on")
    @classmethod
    def _known_kinds(cls, kinds: list[str]) -> list[str]:
        if strange := next((kind for kind in kinds if kind not in KINDS), None):
            near = difflib.get_close_matches(strange, KINDS, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known kinds are {', '.join(KINDS)}"
            raise ValueError(f"unknown kind of finding {strange!r} ({hint})")
        return kinds
