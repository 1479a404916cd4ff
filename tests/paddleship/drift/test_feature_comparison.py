"""Drift is found where there is some, and no sample of the training distribution is called drifted."""

from dataclasses import replace

import numpy as np
import pytest

from paddleship.config.sections.drift import Drift
from paddleship.drift import drift_page, drift_plot, feature_comparison
from paddleship.drift.feature_comparison import DriftVerdict
from tests.paddleship.drift.helpers import FEATURES, counted, made, rows


def compare(seed, *, training=1000, requests=600, settings=None, **shift):
    random = np.random.default_rng(seed)
    return feature_comparison.compare(counted(made(random, training), rows(random, requests, **shift)), settings or Drift())


@pytest.mark.parametrize(("training", "requests"), [(100, 600), (800, 600), (400, 1200)])
def test_requests_of_the_training_distribution_are_no_drift(training, requests):
    results = [compare(seed, training=training, requests=requests) for seed in range(8)]
    assert all(results), [result.headline for result in results]
    assert results[0].headline == f"no drift found in {len(FEATURES.names)} features of {requests:,} requests"


@pytest.mark.long
def test_they_are_none_over_many_seeds():
    assert all(compare(seed, training=500, requests=1000) for seed in range(200))


@pytest.mark.parametrize(
    ("shift", "drifted"),
    [
        ({"shift": 0.7}, {"x[0]"}),
        ({"kinds": (0.2, 0.3, 0.45, 0.05)}, {"k"}),
        ({"kinds": (0.4, 0.25, 0.12, 0.05, 0.18)}, {"k"}),
        ({"longest": 90}, {"ids.length"}),
    ],
    ids=["shifted", "other shares", "a new category", "longer"],
)
def test_a_shift_is_found_and_named(shift, drifted):
    for seed in range(2):
        result = compare(seed, **shift)
        assert drifted <= {feature.name for feature in result.drifted} <= drifted | {"ids.std", "ids.mean"}
        assert not result
        assert result.features[0].name in drifted


def test_a_large_sample_alone_is_no_alarm():
    """The difference is certain, and too small to matter."""
    random = np.random.default_rng(0)
    sample = counted(made(random, 1000), rows(random, 1000, shift=0.12))
    features = [{**item, "counts": [100 * count for count in item["counts"]]} for item in sample.profile["features"]]
    many = replace(
        sample, profile={**sample.profile, "features": features}, rows=100_000, counts=tuple(100 * found for found in sample.counts)
    )
    result = feature_comparison.compare(many, Drift())
    (x,) = [feature for feature in result.features if feature.name == "x[0]"]
    assert x.p_value < 1e-6
    assert x.verdict == DriftVerdict.SAME


def test_too_few_requests_are_no_verdict():
    result = compare(0, requests=100, shift=5)
    assert {feature.verdict for feature in result.features} == {DriftVerdict.CANNOT_TELL}
    assert result.headline == "cannot tell: 100 requests were counted in 24 h, and drift.min_rows is 500"
    assert {feature.p_value for feature in result.features} == {None}
    head, *cells = drift_page.HEAD, *drift_page.rows(result)
    assert {row[head.index("p-value")] for row in cells} == {"–"}, "1 beside a large distance would say that nothing drifted"
    empty = compare(0, requests=0)
    assert empty.headline.startswith("cannot tell: 0 requests")


def test_the_report_has_a_row_for_each_feature_and_says_what_is_not_watched(tmp_path):
    result = compare(0, shift=2, longest=80)
    text = drift_page.markdown(result, picture=drift_plot.draw(result, tmp_path, "features.png"))
    assert "features drifted in 600 requests" in text
    assert "| x[0] |" in text
    assert "| drifted |" in text
    assert "Not watched: labels" in text
    assert (tmp_path / "features.png").stat().st_size > 10_000
