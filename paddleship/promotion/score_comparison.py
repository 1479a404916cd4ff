"""Champion and challenger on the same held-out rows: the score of both with their paired difference, and the decisions that change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from paddleship.acceptance.transport import Outputs
from paddleship.config.sections.promote import Promote
from paddleship.data.dataset import Rows
from paddleship.data.row_text import of_row, of_value
from paddleship.data.task_kinds import registry as task_kinds
from paddleship.data.task_kinds.registration import TaskKind
from paddleship.numerics import differences
from paddleship.reports.figures import change, shares
from paddleship.reports.verdict import Check
from paddleship.shipped.computing.task_kinds.registration import Positions
from paddleship.statistics.estimates import Interval

_LABEL = "label"
_EXAMPLES = 10

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Comparison:
    """What differs over `rows` rows. `drop` is how much of the score is lost, with the 95% interval of the paired difference.

    Score and drop are None where labels and outputs do not fit together or there are no labels, the flip rate where nothing is decided.
    `examples` are rows, with their number, and both answers: decisions that changed, or where nothing is decided the largest differences.
    """

    rows: int
    metric: str
    champion: float | None
    challenger: float | None
    drop: Interval | None
    flips: int | None
    flip_rate: Interval | None
    examples: list[dict[str, Any]]
    labelled: bool = True

    def scores(self) -> str:
        """Both scores and their difference, as text."""
        if self.champion is None or self.challenger is None or self.drop is None:
            reason = "labels and outputs do not fit together" if self.labelled else "the rows have no labels"
            return f"the scores are unknown, because {reason}"
        challenger, champion = shares(self.challenger, self.champion)
        gain = change(-self.drop.value, -self.drop.high, -self.drop.low)
        return f"{self.metric} {challenger} against {champion} on {self.rows:,} rows ({gain})"

    def metrics(self) -> dict[str, float | int]:
        """Flat, without what could not be computed."""
        metrics: dict[str, float | int | None] = {
            "compared_rows": self.rows,
            f"champion_{self.metric}": self.champion,
            f"challenger_{self.metric}": self.challenger,
            "decision_flips": self.flips,
        }
        for name, interval in (("champion_metric_drop", self.drop), ("champion_flip_rate", self.flip_rate)):
            if interval is not None:
                metrics |= {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
        return {name: value for name, value in metrics.items() if value is not None}


def compare(
    rows: Rows,
    champion: Sequence[Outputs],
    challenger: Sequence[Outputs],
    *,
    task: str,
    classes: Sequence[str],
    positions: Sequence[Positions] = (),
) -> Comparison:
    """Both models' outputs for each of the rows, held against the labels and against each other.

    `positions` are those of each row, if the task decides each of them.
    """
    kind = task_kinds.get(task)
    before, after = _decisions(kind, champion, positions), _decisions(kind, challenger, positions)
    if before is None or after is None:
        nothing = Comparison(len(rows), kind.score.name, None, None, None, None, None, [], rows.labelled)
        return nothing if _by_shares(kind) else _scored(nothing, kind, rows, champion, challenger)
    flipped = [not np.array_equal(one, other) for one, other in zip(before, after, strict=True)]
    count = sum(flipped)
    rate = Interval(count / len(rows), *differences.proportion_interval(count, len(rows)))
    by_shares = _by_shares(kind) and rows.labelled
    right = [_right(kind, decisions, rows.labels, classes) if by_shares else None for decisions in (before, after)]
    examples = _changed(kind, rows, before, after, flipped, right, classes, positions)
    decided = Comparison(len(rows), kind.score.name, None, None, None, count, rate, examples, rows.labelled)
    if not _by_shares(kind):
        return _scored(decided, kind, rows, champion, challenger)
    return _with_scores(decided, lambda share, _: float(share.mean()), right[0], right[1], rows.labels)


def _by_shares(kind: TaskKind) -> bool:
    """Whether the score follows from the decision of each row. Spans of positions do not show it."""
    return kind.score.share_of_decisions and not kind.per_position


def checks(comparison: Comparison, limits: Promote) -> list[Check]:
    """The gates on score and decisions; one whose value could not be comparison refuses."""
    made = []
    if limits.max_metric_drop is not None:
        high = comparison.drop.high if comparison.drop else None
        advice = f"{comparison.scores()}; " + (
            "test on more rows if the interval is wide, train longer, or raise promote.max_metric_drop"
            if comparison.labelled
            else "set promote.max_metric_drop: null, and a promote.max_flip_rate"
        )
        made.append(Check.at_most("champion_metric_drop_high", high, limits.max_metric_drop, advice=advice))
    if limits.max_flip_rate is not None:
        high = comparison.flip_rate.high if comparison.flip_rate else None
        advice = "look at the examples in the report; raise promote.max_flip_rate where they are right"
        made.append(Check.at_most("champion_flip_rate_high", high, limits.max_flip_rate, advice=advice))
    return made


def _scored(comparison: Comparison, kind: TaskKind, rows: Rows, champion: Sequence[Outputs], challenger: Sequence[Outputs]) -> Comparison:
    """With the scores of the first outputs, and where nothing is decided, with the rows whose outputs differ most."""
    before, after = (_stacked(kind, [_first(answer) for answer in outputs]) for outputs in (champion, challenger))
    if before is None or after is None or (rows.labelled and not all(kind.fits(outputs, rows.labels) for outputs in (before, after))):
        return comparison
    if comparison.flips is None:
        distances = np.abs(before - after).reshape(len(rows), -1).max(-1)
        indices = [int(index) for index in np.argsort(-distances)[:_EXAMPLES] if distances[index] > 0]
        examples = [_example(rows, index, rows.labels[index] if rows.labelled else None, before[index], after[index]) for index in indices]
        comparison = replace(comparison, examples=examples)
    if not rows.labelled:
        return comparison
    ours, theirs = (kind.score.rows(outputs, rows.labels) for outputs in (before, after))
    return _with_scores(comparison, kind.score.of_rows, ours, theirs, rows.labels)


def _with_scores(
    comparison: Comparison, score: Callable[[Array, Array], float], before: Array | None, after: Array | None, labels: Array
) -> Comparison:
    if before is None or after is None:
        return comparison
    drop = Interval(*differences.drop_interval(score, before, after, labels))
    return replace(comparison, champion=score(before, labels), challenger=score(after, labels), drop=drop)


def _first(answer: Outputs) -> Array:
    """The first output of one row, without the batch."""
    output: Array = next(array for name, array in answer.items() if name != _LABEL)[0]
    return output


def _stacked(kind: TaskKind, arrays: Sequence[Array]) -> Array | None:
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    same = len({array.shape[1:] for array in arrays}) == 1
    return kind.joined([array[None] for array in arrays]) if kind.decision.padded and same else None


def _decisions(kind: TaskKind, outputs: Sequence[Outputs], positions: Sequence[Positions]) -> list[Array] | None:
    """What was decided for each row: the label that the server names, else the decision of the first output; None if there is none."""
    if kind.decision.names is not None and all(_LABEL in answer for answer in outputs):
        return [answer[_LABEL].ravel().astype(str) for answer in outputs]
    decisions = []
    for place, answer in enumerate(outputs):
        scores = _first(answer)[None]
        decided = kind.decision.decide(scores) if scores.ndim > 1 and kind.decisive(scores) else None
        if decided is None:
            return None
        decisions.append(np.asarray(decided[0][: len(positions[place])] if kind.per_position else decided[0]))
    return decisions


def _right(kind: TaskKind, decisions: Sequence[Array], labels: Array, classes: Sequence[str]) -> Array | None:
    """The share of each row's decisions that are its label; None where labels are not of their shape, or a decision is no known class."""
    shares = []
    for decided, label in zip(decisions, labels, strict=True):
        wanted = np.asarray(label).ravel()
        if decided.dtype.kind == "U":
            if not {*decided.tolist()} <= {*classes}:
                return None
            wanted = _named(kind, wanted, classes, ())
        if wanted.shape != decided.ravel().shape:
            return None
        shares.append(float((decided.ravel() == wanted).mean()))
    return np.array(shares)


def _named(kind: TaskKind, label: Array, classes: Sequence[str], positions: Positions) -> Array:
    """The label of one row as a server names it."""
    if kind.decision.names is None:
        return np.array([])
    return np.array(kind.decision.names(label[None], classes, *([[positions]] if kind.per_position else [])))


def _changed(
    kind: TaskKind,
    rows: Rows,
    before: Sequence[Array],
    after: Sequence[Array],
    flipped: Sequence[bool],
    right: Sequence[Array | None],
    classes: Sequence[str],
    positions: Sequence[Positions],
) -> list[dict[str, Any]]:
    """Rows whose decision changed, first those where the champion was right and the challenger is wrong."""
    indices = [index for index, changed in enumerate(flipped) if changed]
    if right[0] is not None and right[1] is not None:
        lost = right[1] - right[0]
        indices.sort(key=lambda index: lost[index])
    named = bool(before) and before[0].dtype.kind == "U"
    examples = []
    for index in indices[:_EXAMPLES]:
        label = np.asarray(rows.labels[index]) if rows.labelled else None
        if label is not None and named:
            label = _named(kind, label, classes, positions[index] if kind.per_position else ())
        examples.append(_example(rows, index, label, before[index], after[index]))
    return examples


def _example(rows: Rows, index: int, label: Array | None, champion: Array, challenger: Array) -> dict[str, Any]:
    values = {"label": "none" if label is None else of_value(label), "champion": of_value(champion), "challenger": of_value(challenger)}
    return {"number": index, "row": of_row(rows, index), **values}
