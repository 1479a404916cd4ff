"""Two scores on the same rows: no interval is too narrow, and equal models are equal."""

import numpy as np
import pytest

from paddleship.statistics import paired_scores


def rows_of(*right):
    return np.array(right) / len(right)


def differing(better, worse, rows=1000):
    """Two models that differ in some rows, each right in as many of them."""
    one, other = np.ones(rows), np.ones(rows)
    other[:better], one[better : better + worse] = 0, 0
    return paired_scores.difference(rows_of(*one), rows_of(*other))


def test_the_difference_is_that_of_the_scores():
    seen = differing(60, 20)
    assert seen.value == pytest.approx(0.04, abs=1e-6)
    assert 0 < seen.low < 0.04 < seen.high


@pytest.mark.parametrize(
    ("better", "worse", "told"),
    [
        (0, 0, False),
        (1, 0, False),
        (4, 0, False),
        (5, 0, False),
        (6, 0, True),
        (7, 1, False),
        (9, 2, False),
        (11, 3, False),
        (30, 20, False),
        (40, 20, True),
    ],
)
def test_it_decides_as_the_exact_test_of_changed_rows_does(better, worse, told):
    """The exact test (McNemar's) has p = 0.125 for 4 against 0, 0.031 for 6 against 0, 0.20 for 30 against 20, 0.013 for 40 against 20."""
    assert (differing(better, worse).low > 0) == told


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_few_rows_that_all_differ_decide_nothing(rows):
    assert differing(rows, 0, rows=rows).low < 0 < differing(rows, 0, rows=rows).high


@pytest.mark.parametrize("rows", [2, 5, 8, 20])
def test_few_rows_make_no_difference_of_equal_models(rows):
    random = np.random.default_rng(1)
    pairs = [paired_scores.difference(*(rows_of(*random.integers(0, 2, rows)) for _ in range(2))) for _ in range(1000)]
    assert sum(seen.low > 0 or seen.high < 0 for seen in pairs) <= 65


def test_of_two_equal_models_one_is_called_better_in_5_of_100_cases_at_most():
    random = np.random.default_rng(0)
    told = 0
    for _ in range(1000):
        hard = random.random(300)
        one, other = ((random.random(300) > 0.4 * hard).astype(float) for _ in range(2))
        told += not (lambda seen: seen.low <= 0 <= seen.high)(paired_scores.difference(rows_of(*one), rows_of(*other)))
    assert told <= 65


def test_rows_that_are_not_the_same_are_not_compared():
    assert paired_scores.difference(rows_of(1, 0), rows_of(1, 0, 1)) is None
    assert paired_scores.difference(np.zeros(0), np.zeros(0)) is None
