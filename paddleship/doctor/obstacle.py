"""An error that stops a conversion."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from paddleship.reports.finding import Finding


@dataclass(frozen=True)
class Obstacle(Finding):
    """An error of a conversion, with the pattern of paddleship.doctor.ast_lint that may be its cause."""

    pattern: str = ""

    def plain(self, **changed: Any) -> Finding:
        values = {item.name: getattr(self, item.name) for item in fields(Finding)}
        return Finding(**{**values, **changed})
