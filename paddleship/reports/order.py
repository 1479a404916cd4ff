"""The stages in the order of the graph, and their reports in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from paddleship.reports.report import Report

StageName = Literal["prepare", "train", "export", "optimize", "verify", "benchmark", "package", "accept"]
STAGES: tuple[StageName, ...] = get_args(StageName)


def in_order(reports: Iterable[Report]) -> list[Report]:
    """Reports in the order of their stages; when they ran says nothing, because a stage whose inputs are as before does not run again."""
    position: dict[str, int] = {stage: number for number, stage in enumerate(STAGES)}
    return sorted(reports, key=lambda report: position.get(report.stage, len(position)))
