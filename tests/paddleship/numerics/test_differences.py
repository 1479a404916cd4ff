import numpy as np
import pytest

from paddleship.numerics import differences
from paddleship.numerics.differences import OutputErrors

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.5], 0.5),
        ([NAN], [NAN], 0),
        ([NAN], [1.0], INF),
        ([1.0], [NAN], INF),
        ([INF], [INF], 0),
        ([INF], [-INF], INF),
        ([INF], [1.0], INF),
        ([NAN], [INF], INF),
        ([True, False], [True, True], 1),
        ([3], [3], 0),
        ([2**53], [2**53 + 1], 1),
        ([], [], 0),
        ([1.0], [1.0, 1.0], INF),
        ([1.0], [[1.0]], INF),
    ],
)
def test_distance(one, two, expected):
    assert differences.distance(np.array(one), np.array(two)) == expected


def test_two_shapes_are_never_compared_element_by_element():
    with pytest.raises(ValueError, match=r"\[1\] and \[2\]"):
        differences.elementwise_distance(np.ones(1), np.ones(2))


@pytest.mark.parametrize(
    ("answer", "truth", "expected"),
    [([1.5, 4.0], [1.0, 4.0], 0.125), ([NAN, 4.0], [1.0, 4.0], INF), ([0.0], [0.0], 0), ([1, -INF], [1, -INF], 0)],
)
def test_a_relative_distance_is_in_units_of_the_largest_finite_number(answer, truth, expected):
    assert differences.relative(np.array(answer), np.array(truth)) == expected


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"a": np.ones(2), "b": np.ones(2)}, 0),
        ({"a": np.ones(2), "b": np.full(2, 1.5)}, 0.5),
        ({"a": np.ones(2)}, INF),
        ({"a": np.ones(2), "c": np.ones(2)}, INF),
    ],
)
def test_the_worst_output_counts_and_all_must_be_there(answers, expected):
    assert differences.worst_relative(answers, {"a": np.ones(2), "b": np.ones(2)}) == expected


@pytest.mark.parametrize("order", [1, -1])
def test_the_worse_of_two_is_the_larger_error_the_smaller_cosine_and_nan_before_all(order):
    two = [OutputErrors(max_abs_diff=1.0, max_ulp=NAN, cosine=0.5), OutputErrors(max_abs_diff=2.0, max_ulp=3.0, cosine=0.9)][::order]
    worst = two[0].worst(two[1])
    assert (worst.max_abs_diff, worst.cosine) == (2.0, 0.5)
    assert np.isnan(worst.max_ulp)


def test_comparing_nothing_is_no_agreement():
    assert differences.worst_relative({}, {}) == INF


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (np.array([1.0, 100.0]), np.array([1.05, 100.0]), True),
        (np.array([1.0, 100.0]), np.array([1.2, 100.0]), False),
        (np.array([1.0, NAN]), np.array([1.0, NAN]), True),
        (np.array([1.0, 1.0]), np.array([1.0, NAN]), False),
        (np.array([1000, 1]), np.array([1000, 2]), False),
        (np.array([1, 2]), np.array([1.0, 2.0]), False),
    ],
)
def test_the_same_is_exact_for_whole_numbers_and_to_a_tolerance_for_others(one, two, expected):
    assert differences.same(one, two, tolerance=1e-3) == expected


def _log_score(outputs, labels):
    return float(np.log(outputs).mean()) if (outputs > 0).all() else np.nan


@pytest.mark.parametrize("many", [1, 60])
def test_a_score_that_is_lost_is_no_drop_of_zero(many):
    before = np.linspace(1, 2, 60)
    after = np.where(np.arange(60) < many, -1, before)
    drop, low, high = differences.drop_interval(_log_score, before, after, before)
    assert not np.isfinite([drop, low, high]).any()


def test_a_score_that_is_lost_in_many_draws_has_no_upper_end_and_draws_without_a_score_before_do_not_count():
    def both(outputs, labels):
        return float(outputs.mean()) if len(set(outputs.tolist())) > 1 else np.nan

    before, after = np.arange(6.0), np.array([1.0, 0, 0, 0, 0, 0])
    drop, _, high = differences.drop_interval(both, before, after, before)
    assert np.isfinite(drop)
    assert not high <= 100
    assert np.isfinite(differences.drop_interval(both, after, before, before)).all()
