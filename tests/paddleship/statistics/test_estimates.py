import numpy as np
import pytest

from paddleship.statistics import estimates
from paddleship.statistics.estimates import Interval


def noisy(ratio, *, starts=3, blocks=20, spread=0.02, between=0.0, seed=0):
    random = np.random.default_rng(seed)
    return [np.log(ratio) + random.normal(0, between) + random.normal(0, spread, blocks) for _ in range(starts)]


@pytest.mark.parametrize(
    ("count", "stated"),
    [
        (4, set()),
        (5, {"p50_ms"}),
        (64, {"p50_ms", "p90_ms"}),
        (130, {"p50_ms", "p90_ms", "p95_ms"}),
        (662, {"p50_ms", "p90_ms", "p95_ms", "p99_ms"}),
    ],
)
def test_no_percentile_from_too_few_samples(count, stated):
    assert {key for key, value in estimates.percentiles([1.0] * count).items() if value is not None} == stated


def test_the_interval_of_a_ratio_holds_the_truth_about_as_often_as_it_says():
    held = sum(found.low <= 1.1 <= found.high for found in (estimates.ratio(noisy(1.1, seed=seed)) for seed in range(100)))
    assert held >= 92


def test_processes_that_differ_widen_the_interval():
    alike, apart = estimates.ratio(noisy(1.0, starts=6)), estimates.ratio(noisy(1.0, starts=6, between=0.1))
    assert np.log(apart.high / apart.low) > 4 * np.log(alike.high / alike.low)


@pytest.mark.parametrize(
    ("found", "aa_ratio", "word"),
    [
        (Interval(1.10, 1.06, 1.14), Interval(1.0, 0.98, 1.02), "better"),
        (Interval(0.90, 0.87, 0.94), Interval(1.0, 0.98, 1.02), "worse"),
        (Interval(1.10, 1.06, 1.14), Interval(1.0, 0.92, 1.02), "cannot tell"),
        (Interval(1.10, 0.99, 1.20), Interval(1.0, 0.99, 1.01), "cannot tell"),
        (Interval(1.03, 1.02, 1.04), Interval(1.0, 0.99, 1.01), "cannot tell"),
        (Interval(1.10, 1.06, 1.14), None, "better"),
    ],
)
def test_a_verdict_needs_the_effect_and_an_interval_beyond_the_noise(found, aa_ratio, word):
    assert estimates.difference(found, aa_ratio, effect=0.05) == word


def test_no_difference_of_that_size_is_settled_too():
    assert estimates.settled(Interval(1.0, 0.98, 1.02), None, effect=0.05)
    assert not estimates.settled(Interval(1.0, 0.9, 1.1), None, effect=0.05)


def test_growth_has_a_slope_and_one_step_has_none():
    steady = [(float(x), 5.0 * x) for x in range(10)]
    step = [(float(x), 100.0 if x > 1 else 0.0) for x in range(10)]
    assert estimates.slope([steady]).low == pytest.approx(5)
    assert estimates.slope([step]).low <= 0
    assert estimates.slope([steady, step]).low <= 0
    assert estimates.slope([steady[:3]]) is None


def test_growth_that_comes_to_an_end_does_not_last():
    assert estimates.lasting_slope([(float(x), 5.0 * x) for x in range(16)]).low == pytest.approx(5)
    assert estimates.lasting_slope([(float(x), 1000 * (1 - 0.8**x)) for x in range(16)]) is None
    assert estimates.lasting_slope([]) is None


@pytest.mark.parametrize(
    ("rates", "size"), [({1: 100, 2: 190, 4: 350, 8: 360, 16: 365}, 4), ({1: 100, 2: 200}, 2), ({1: 100, 2: 100}, 1), ({}, None)]
)
def test_the_knee_is_where_a_larger_batch_gains_little(rates, size):
    assert estimates.knee(rates, gain=0.1) == size


def test_a_change_between_two_races_is_the_ratio_of_their_speedups():
    found = estimates.change(noisy(2.0), noisy(3.0, seed=1))
    assert found.low < 1.5 < found.high
    assert found.high / found.low < 1.05
