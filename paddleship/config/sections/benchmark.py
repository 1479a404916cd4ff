"""The section `benchmark`: what is measured, and how long."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from paddleship.config.sections.section import Fraction, Positive, Seconds, Section
from paddleship.config.validation_errors import whole


class Benchmark(Section):
    batch_sizes: Annotated[list[Positive], Field(min_length=1)] = Field(
        [1, 2, 4, 8, 16, 32], description="latency is judged at the first size; all sizes make the curve"
    )
    concurrency: list[Positive] = Field([1, 2], description="numbers of processes that answer at the same time, as far as there are cores")
    starts: Positive = Field(3, description="starts of every participant, because processes of one program differ")
    blocks: Annotated[int, Field(ge=4, description="interleaved blocks of each participant, over all starts")] = 24
    samples_per_block: Positive = Field(96, description="most measurements of a participant in a block")
    effect: Fraction = Field(0.05, description="smallest difference that is called better or worse")
    knee_gain: Fraction = Field(0.1, description="share of throughput that the next batch size must gain to be worth its latency")
    warmup_s: Seconds = Field(1, description="time limit of the warm-up of one batch size")
    max_growth_bytes: Positive = Field(1_000_000, description="memory growth per 1,000 requests above which a participant leaks")
    scenario_seconds: Seconds = Field(5, description="time limit of each MLPerf scenario, run on eager and the winner")
    slo_p99_ms: Annotated[float, Field(gt=0)] | None = Field(
        None, description="p99 objective of the Server scenario; null: no search for the highest load that meets it"
    )
    max_seconds: Seconds = Field(60, description="time limit from the second start of the participants on; the first start has no limit")
    timeout_s: Seconds = Field(300, description="time limit of loading a participant, and of each call of its process")
    max_busy_share: Annotated[float, Field(gt=0, le=1)] = Field(
        0.6, description="of the machine's processor time that others may take; beyond it the figures are reported as not valid"
    )
    host: Literal["here", "any"] = Field(
        "here", description="here: measure on this machine; any: accept a measurement of another machine, named in the result"
    )

    @model_validator(mode="after")
    def _blocks_for_all_starts(self) -> Benchmark:
        if self.blocks < self.starts:
            raise whole(f"blocks (got {self.blocks}) must be at least starts (got {self.starts}): each start measures one block or more")
        return self
