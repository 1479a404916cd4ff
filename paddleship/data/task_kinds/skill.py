"""Whether a score on the test rows is better than that of a constant answer.

The gain is compared row by row, with a 95% interval (Student's t): a score whose interval includes no gain is a warning, or a
note where fewer than 100 rows show some gain.
"""

from __future__ import annotations

import math

from paddleship.reports.finding import Finding, Severity
from paddleship.shipped.computing.task_kinds.registration import Array

_MANY = 100  # test rows from which it is a warning that they do not show a better model


def findings(message: str, gains: Array) -> list[Finding]:
    """A finding, unless the rows show that the model is better; `message` tells both scores, `gains` the gain of each row."""
    if _low(gains) > 0:
        return []
    if gains.mean() <= 0:
        return [Finding("no-skill", "warning", f"{message}: the model is no better", "check inputs and labels, or train for longer")]
    severity: Severity = "note" if len(gains) < _MANY else "warning"
    advice = "raise data.test, or check inputs and labels"
    return [Finding("no-skill", severity, f"{message}: these rows do not show that the model is better", advice)]


def _low(gains: Array) -> float:
    """The lower end of the 95% interval of the mean gain."""
    from scipy import stats

    if len(gains) < 2:
        return -math.inf
    return float(gains.mean() - stats.t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / math.sqrt(len(gains)))
