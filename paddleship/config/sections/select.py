"""The section `select`: how the winner of the benchmark is chosen."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from paddleship.config.sections.section import Positive, Section


class Select(Section):
    objective: Literal["p50_ms", "p99_ms", "throughput_per_s", "cost_per_million", "image_bytes"] = Field(
        "p99_ms", description="measure by which the winner is chosen"
    )
    price_per_core_hour: Annotated[float, Field(gt=0)] = Field(0.04, description="in any currency; cost_per_million is in the same one")
    price_per_gpu_hour: Annotated[float, Field(ge=0)] = Field(2.0, description="in the same currency; added for a candidate on a GPU")
    slo_p99_ms: Annotated[float, Field(gt=0)] | None = Field(None, description="a candidate above it cannot be chosen")
    max_memory_bytes: Positive | None = Field(None, description="a candidate whose peak memory is above it cannot be chosen; null: any")
    max_flip_rate: Annotated[float, Field(ge=0, le=1)] | None = Field(None, description="at the upper end of its 95% interval")
    candidate: str | None = Field(None, description="ship this one instead of the winner")
