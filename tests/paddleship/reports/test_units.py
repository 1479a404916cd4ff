"""Three digits are enough, in the unit that fits, and two figures that differ do not look the same."""

import pytest

from paddleship.reports import units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (units.duration(0.0239), "23.9 µs"),
        (units.duration(0.9996), "1.00 ms"),
        (units.duration(1500), "1.50 s"),
        (units.size(2620), "2.62 kB"),
        (units.size(205_754_257), "206 MB"),
        (units.size(6.2e9), "6.20 GB"),
        (units.times(7.9934), "7.99×"),
        (units.three(1234.5), "1,234"),
    ],
)
def test_a_figure_has_the_unit_in_which_three_digits_are_enough(text, expected):
    assert text.replace("\xa0", " ") == expected


def test_two_figures_that_differ_look_different():
    assert [text.replace("\xa0", " ") for text in units.durations(0.02391, 0.02392)] == ["23.91 µs", "23.92 µs"]
    assert [text.replace("\xa0", " ") for text in units.sizes(205_990_000, 206_010_000)] == ["205.99 MB", "206.01 MB"]
    assert units.sizes(100, 100)[0] == units.sizes(100, 100)[1]
