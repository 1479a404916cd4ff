"""Whether the scores of a model have the form that its task reads: logits, or probabilities."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from paddleship.reports.finding import Finding, Severity
from paddleship.shipped.computing.task_kinds import registry
from paddleship.shipped.computing.task_kinds.registration import Array, Decision


def findings(decision: Decision, outputs: Iterable[Array], severity: Severity) -> list[Finding]:
    """Whether the first outputs of a model for all rows have the other form, in which every decision may be wrong."""
    if not decision.reads:
        return []
    within = all((((one >= 0) & (one <= 1)) | np.isnan(one)).all() for one in outputs)
    if decision.reads == "logits" and within:
        message = f"all values of the first output are between 0 and 1, and data.task {decision.name} decides by logits"
        return [
            Finding("scores-form", severity, message, f"if the model ends with a sigmoid, set data.task to {_reading('probabilities')}")
        ]
    if decision.reads == "probabilities" and not within:
        message = f"the first output has values that are not between 0 and 1, and data.task {decision.name} decides by probabilities"
        return [Finding("scores-form", severity, message, f"set data.task to {_reading('logits')}")]
    return []


def _reading(form: str) -> str:
    return " or ".join(name for name, one in registry.ours().items() if one.registration.reads == form)
