"""What each row adds to a score, through a report and back."""

import numpy as np
import pytest

from paddleship.reports import row_scores


def test_what_is_packed_is_unpacked_in_float32():
    rows = np.random.default_rng(0).normal(size=50)
    assert row_scores.unpack(row_scores.pack(rows)) == pytest.approx(rows, rel=1e-6)


@pytest.mark.parametrize("rows", [[], [0.5, np.nan], [1e300]])
def test_what_is_not_finite_in_float32_is_not_recorded(rows):
    assert row_scores.pack(np.array(rows)) == ""


def test_what_is_too_long_for_a_report_is_not_recorded():
    assert row_scores.pack(np.random.default_rng(0).normal(size=200_000)) == ""


@pytest.mark.parametrize("text", ["", "no packed text", "AAAA", "中"])
def test_another_text_holds_no_rows(text):
    assert len(row_scores.unpack(text)) == 0
