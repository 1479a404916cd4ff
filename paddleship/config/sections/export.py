"""The section `export`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from paddleship.config.sections.section import Positive, Section


class Export(Section):
    skip: list[str] = Field([], description="paths of sublayers whose code Paddle does not convert (`not_to_static`)")
    buckets: dict[str, Annotated[list[Positive], Field(min_length=1)]] = Field(
        {}, description="sizes to export for a dimension that cannot stay dynamic; default: from the data"
    )
