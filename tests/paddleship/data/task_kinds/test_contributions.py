"""What each row adds to a score: the sum is the score, and the spread is that of the score."""

import numpy as np
import pytest

from paddleship.data.task_kinds import registry
from paddleship.numerics import differences
from paddleship.reports import row_scores
from paddleship.statistics import paired_scores

RANDOM = np.random.default_rng(0)
ROWS = 400


def classified():
    labels = RANDOM.integers(0, 3, ROWS)
    return labels, [np.eye(3)[labels] + RANDOM.normal(size=(ROWS, 3)) * noise for noise in (0.5, 0.8)]


def measured():
    labels = (RANDOM.normal(size=(ROWS, 2)) * [1, 1000]).astype(np.float32)
    return labels, [labels + RANDOM.normal(size=labels.shape) * [0.3, 300] * noise for noise in (1, 2)]


def labelled():
    labels = (RANDOM.random((ROWS, 4)) < 0.3).astype(np.float32)
    return labels, [labels - 0.5 + RANDOM.normal(size=labels.shape) * noise for noise in (0.4, 0.6)]


def tagged():
    labels = RANDOM.integers(0, 3, (ROWS, 5))
    labels[: ROWS // 2, 3:] = -1
    return labels, [np.eye(3)[labels] + RANDOM.normal(size=(ROWS, 5, 3)) * noise for noise in (0.5, 0.8)]


@pytest.mark.parametrize(
    ("task", "made"), [("classification", classified), ("regression", measured), ("multilabel", labelled), ("tagging", tagged)]
)
def test_contributions_sum_to_the_score_and_their_interval_is_that_of_a_bootstrap(task, made):
    labels, answers = made()
    score = registry.get(task).score
    contributions = [score.contributions(outputs, labels) for outputs in answers]
    assert [sum(rows) for rows in contributions] == pytest.approx([score.of(outputs, labels) for outputs in answers])
    value, low, high = differences.drop_interval(score.of, *answers, labels)
    seen = paired_scores.difference(*contributions)
    assert seen.value == pytest.approx(value, abs=1e-5)
    assert (seen.high - seen.low) == pytest.approx(high - low, rel=0.25)


def test_a_score_of_nothing_has_no_contributions_that_could_be_recorded():
    empty = np.zeros((5, 2), np.float32)
    kinds = [registry.get(task).score for task in ("multilabel", "regression")]
    assert [row_scores.pack(kind.contributions(empty, empty)) for kind in kinds] == ["", ""]
