"""The names of the task kinds, as data.task offers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from paddleship.shipped.computing.task_kinds import registry

DESCRIPTION = "; ".join(f"{name}: {decision.labels}" for name, decision in registry.decisions().items())

if TYPE_CHECKING:
    TaskName = str
else:
    TaskName = Literal[tuple(registry.decisions())]
