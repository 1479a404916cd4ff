"""Figures that differ do not look the same."""

import pytest

from paddleship.reports import figures
from paddleship.reports.verdict import Check


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.99999, "0.99999"), (200.0, "200"), (15000.0, "15,000"), (1_200_000_000, "1,200,000,000"), (1e-05, "1e-05"), (0.8, "0.8")],
)
def test_a_limit_is_shown_as_it_was_set(value, text):
    assert figures.limit(value) == text


@pytest.mark.parametrize(
    ("value", "other", "text"), [(0.999994, 0.99999, "0.999994"), (0.999981, 0.99999, "0.999981"), (0.123456, 0.5, "0.1235")]
)
def test_a_figure_is_seen_on_its_side_of_the_other(value, other, text):
    assert figures.beside(value, other) == text


def test_a_missed_limit_of_nearly_1_is_not_printed_as_1():
    assert str(Check.at_least("score", 0.99998, 0.99999)) == "score is 0.99998 (limit 0.99999)"


@pytest.mark.parametrize(
    ("one", "other", "texts"),
    [
        (0.5, 0.25, ("0.5", "0.25")),
        (0.83961, 0.83964, ("0.83961", "0.83964")),
        (251_000_000.0, 251_000_001.0, ("251,000,000", "251,000,001")),
        (12_345.6, 3.0, ("12,346", "3")),
        (1.0, 1.0, ("1", "1")),
    ],
)
def test_figures_that_are_compared_have_enough_digits_to_differ(one, other, texts):
    assert figures.distinct(one, other) == texts


@pytest.mark.parametrize(
    ("value", "text"), [(0.8396, "0.8396"), (0.99999, "0.99999"), (1.0, "1.0000"), (0.00001, "1e-05"), (0.0, "0.0000")]
)
def test_a_score_is_never_rounded_to_0_or_1(value, text):
    assert figures.share(value) == text


def test_scores_that_differ_do_not_look_the_same():
    assert figures.shares(0.85, 0.95) == ("0.8500", "0.9500")
    assert figures.shares(0.83961, 0.83964) == ("0.83961", "0.83964")


def test_a_column_has_the_digits_that_tell_its_figures_apart():
    assert figures.column([205.99, 203.01, 203.01], 3) == ["206", "203", "203"]
    assert figures.column([205.99, 206.01], 3) == ["205.99", "206.01"]
    assert figures.column([], 3) == []


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        ((0.0158, 0.0023, 0.0288), "+0.0158, 95% interval +0.0023 to +0.0288"),
        ((0.002, -0.0014, 0.0054), "+0.0020, 95% interval -0.0014 to +0.0054"),
        ((0.0003, 0.00002, 0.0006), "+0.0003, 95% interval +2e-05 to +0.0006"),
        ((0.0, 0.0, 0.0), "+0.0000, 95% interval +0.0000 to +0.0000"),
    ],
)
def test_a_difference_that_counts_is_not_read_as_none(interval, text):
    assert figures.change(*interval) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0125, "1.25%"), (0.00003, "0.003%"), (0.99999, "99.999%"), (0, "0.00%"), (1, "100.00%"), (0.999999999, "99.9999999%")],
)
def test_a_percentage_is_0_or_100_only_if_it_is(value, text):
    assert figures.percent(value) == text
