"""The section `graph_modes`: the flow compare-graph-modes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from paddleship.config.graph_modes import NETWORKS, ModeName, NetworkName
from paddleship.config.sections.section import Positive, Seconds, Section


class GraphModes(Section):
    networks: Annotated[list[NetworkName], Field(min_length=1)] = Field(list(NETWORKS), description="networks that are measured")
    modes: Annotated[list[ModeName], Field(min_length=1)] | None = Field(None, description="null: all of them")
    full: bool = Field(False, description="sizes for GPUs; the others are for two cores")
    rounds: Annotated[int, Field(ge=2)] = Field(10, description="interleaved blocks of each mode, over all starts")
    starts: Positive = Field(2, description="times that every mode is started anew, because processes differ")
    threads: Positive = Field(
        2, description="threads and cores of every mode; with one core, Paddle's executor is slowed down by its own threads"
    )
    torch_site: str | None = Field(None, description="site-packages folder of PyTorch where it is not installed beside Paddle")
    noise_limit: Annotated[float, Field(gt=0)] = Field(
        8, description="largest error of answers and first losses, in units of eager float32's own error"
    )
    timeout_s: Seconds = Field(600, description="time limit of one mode of one network, compilation included")
