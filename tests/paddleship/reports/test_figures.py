"""Figures that differ do not look the same."""

import pytest

from paddleship.reports import figures
from paddleship.reports.verdict import Check


@pytest.mark.parametrize(("value", "text"), [(0.99999, "0.99999"), (200.0, "200"), (1e-05, "1e-05"), (0.8, "0.8")])
def test_a_limit_is_shown_as_it_was_set(value, text):
    assert figures.limit(value) == text


@pytest.mark.parametrize(
    ("value", "other", "text"), [(0.999994, 0.99999, "0.999994"), (0.999981, 0.99999, "0.999981"), (0.123456, 0.5, "0.1235")]
)
def test_a_figure_is_seen_on_its_side_of_the_other(value, other, text):
    assert figures.beside(value, other) == text


def test_a_missed_limit_of_nearly_1_is_not_printed_as_1():
    assert str(Check.at_least("score", 0.99998, 0.99999)) == "score is 0.99998 (limit 0.99999)"
