"""Whether a score on the test rows is better than that of a constant answer: the largest class of these rows, or their mean.

The gain is compared row by row, with a 95% interval (Student's t): a score whose interval includes no gain is a warning, or a
note where fewer than 100 rows show some gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from paddleship.reports.finding import Finding, Severity

Array = np.ndarray[Any, Any]
_MANY = 100  # test rows from which it is a warning that they do not show a better model
_FEWEST = 3  # test rows of a class from which it is a warning that the model never chooses it


def decides(outputs: Array, task: str) -> bool:
    """Whether the outputs hold one score for each class, so that the model chooses one."""
    return task == "classification" and outputs.ndim == 2 and outputs.shape[1] > 1


def largest_class(labels: Array) -> tuple[int, float]:
    """The class that most rows have, and its share of the rows."""
    identities, counts = np.unique(labels, return_counts=True)
    place = int(counts.argmax())
    return int(identities[place]), float(counts[place] / counts.sum())


def findings(outputs: Array, labels: Array, *, task: str, classes: Sequence[str]) -> list[Finding]:
    """Warnings about a model that is not shown to be better than a constant answer, or that never chooses a class."""
    if task == "regression":
        if outputs.size != labels.size:
            return []  # a loss of the user's own reads it in another way
        return _against_mean(outputs.reshape(labels.shape), labels)
    return [*_against_largest(outputs, labels, classes), *_unchosen(outputs, labels, classes)] if decides(outputs, task) else []


def _against_largest(outputs: Array, labels: Array, classes: Sequence[str]) -> list[Finding]:
    largest, share = largest_class(labels)
    right = outputs.argmax(1) == labels
    gains = right.astype(np.float64) - (labels == largest)
    if _low(gains) > 0:
        return []
    constant = f"always answering {_name(largest, classes)} gives {share:.4f}"
    message = f"the accuracy on the {len(labels):,} test rows is {right.mean():.4f}, and {constant}"
    return [_no_skill(message, gains)]


def _against_mean(outputs: Array, labels: Array) -> list[Finding]:
    targets = labels.shape[-1] if labels.ndim > 1 else 1
    spread = ((labels - labels.mean(0)) ** 2).reshape(len(labels), -1, targets)
    error = ((outputs - labels) ** 2).reshape(len(labels), -1, targets)
    varies = spread.sum((0, 1)) > 0
    if not varies.any():
        return []
    gains = ((spread - error)[..., varies].mean(1) / spread[..., varies].mean((0, 1))).mean(1)
    if _low(gains) > 0:
        return []
    return [_no_skill(f"R² on the {len(labels):,} test rows is {gains.mean():.4f}, and always answering the mean gives 0", gains)]


def _no_skill(message: str, gains: Array) -> Finding:
    if gains.mean() <= 0:
        return Finding("no-skill", "warning", f"{message}: the model is no better", "check inputs and labels, or train for longer")
    severity: Severity = "note" if len(gains) < _MANY else "warning"
    advice = "raise data.test, or check inputs and labels"
    return Finding("no-skill", severity, f"{message}: these rows do not show that the model is better", advice)


def _unchosen(outputs: Array, labels: Array, classes: Sequence[str]) -> list[Finding]:
    counts = {int(one): int((labels == one).sum()) for one in np.setdiff1d(labels, outputs.argmax(1))}
    if not counts:
        return []
    severity: Severity = "warning" if max(counts.values()) >= _FEWEST else "note"
    named = ", ".join(f"{_name(one, classes)} ({count:,} rows)" for one, count in list(counts.items())[:5])
    more = f" and {len(counts) - 5:,} more" if len(counts) > 5 else ""
    message = f"the model chooses these classes for none of the {len(labels):,} test rows: {named}{more}"
    return [Finding("unchosen-class", severity, message, "provide more rows of them, or weight them in train.loss")]


def _low(gains: Array) -> float:
    """The lower end of the 95% interval of the mean gain."""
    from scipy import stats

    if len(gains) < 2:
        return -math.inf
    return float(gains.mean() - stats.t.ppf(0.975, len(gains) - 1) * gains.std(ddof=1) / math.sqrt(len(gains)))


def _name(identity: int, classes: Sequence[str]) -> str:
    return repr(classes[identity]) if identity < len(classes) else f"class {identity}"
