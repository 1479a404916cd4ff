"""What all stages say of each candidate, in one row."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from paddleship.reports.report import Report
from paddleship.reports.statuses import Status


def candidate_rows(reports: Iterable[Report]) -> dict[str, dict[str, Any]]:
    """The rows of all stages about a candidate, as one row; a failure in an earlier stage keeps its reason."""
    rows: dict[str, dict[str, Any]] = {}
    for report in reports:
        for name, row in report.candidates.items():
            known = rows.setdefault(name, {})
            if known.get("status") not in (Status.FAILED, Status.NOT_MADE):
                known |= {key: value for key, value in row.items() if value not in (None, "")}
    return rows
