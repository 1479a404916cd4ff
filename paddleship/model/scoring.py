"""What a report says of the scores of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from paddleship.data.task_kinds.registration import TaskKind
from paddleship.model.training import Evaluation
from paddleship.reports.figures import share
from paddleship.reports.finding import Finding
from paddleship.shipped.computing.task_kinds.registration import Array


@dataclass(frozen=True)
class Scored:
    """The scores of a model as a sentence, as metrics by name, and what is remarkable about them."""

    headline: str
    metrics: dict[str, float] = field(default_factory=dict)
    findings: Sequence[Finding] = ()


def scored(validated: Evaluation, tested: Evaluation, labels: Array, *, kind: TaskKind, classes: Sequence[str]) -> Scored:
    """The scores on validation and test rows; `labels` are those of the test rows, empty if rows have none."""
    if not len(labels):
        return Scored("no score, because the rows have no labels,")
    name, constant = kind.score.name, kind.constant(tested.outputs, labels)
    beside = f" ({constant.title} {constant.value:.4f})" if constant else ""
    metrics = {
        f"test_{name}": tested.score,
        **({f"test_{constant.metric}": constant.value} if constant else {}),
        **{f"test_{further}": of(tested.outputs, labels, classes) for further, of in kind.further.items()},
        f"validation_{name}": validated.score,
        "test_loss": tested.loss,
        "validation_loss": validated.loss,
    }
    return Scored(f"test {name} {share(tested.score)}{beside}", metrics, kind.findings(tested.outputs, labels, classes))
