"""The section `notify`: notifications of the Prefect server."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from paddleship.config.sections.section import Section

Channel = Literal["email", "slack", "webhook"]
Occasion = Literal["failed", "gate-missed", "drift", "promoted"]


class Notify(Section):
    """Which channels the Prefect server sends a notification to, and on what. Their addresses are in the environment."""

    channels: list[Channel] = Field([], description="email, slack, webhook; [] for none")
    occasions: Annotated[list[Occasion], Field(min_length=1)] = Field(
        ["failed", "gate-missed", "drift", "promoted"], description="failed, gate-missed, drift, promoted"
    )
