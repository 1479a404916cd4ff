"""The section `drift`: when a feature of the requests is called drifted."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from paddleship.config.sections.section import Section

MOST_HOURS = 168  # a week, which servers keep of a request sample


class Drift(Section):
    """When `paddleship drift` says that a feature of the requests is distributed differently from the training rows."""

    sample: str | None = Field(None, description="folder that servers write their request samples to (--sample)")
    hours: Annotated[int, Field(ge=1, le=MOST_HOURS)] = Field(24, description="how many of the last hours count")
    min_rows: Annotated[int, Field(ge=100)] = Field(500, description="requests below which the verdict is: cannot tell")
    min_distance: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.1, description="smallest Jensen-Shannon distance (0 … 1) of a feature's distributions that is called drift"
    )
    false_alarm_rate: Annotated[float, Field(gt=0, le=0.1)] = Field(
        0.001, description="expected share of false alarms among the features that are called drifted"
    )
