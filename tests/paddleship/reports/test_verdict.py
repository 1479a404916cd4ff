import math

import pytest
from pydantic import ValidationError

from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict


@pytest.mark.parametrize("measured", [math.nan, None, 3.1, math.inf])
def test_at_most_fails_on_what_is_no_number_or_too_much(measured):
    assert not Check.at_most("x", measured, 3).passed


@pytest.mark.parametrize("measured", [math.nan, None, 2.9, -math.inf])
def test_at_least_fails_on_what_is_no_number_or_too_little(measured):
    assert not Check.at_least("x", measured, 3).passed


def test_the_limit_itself_passes():
    assert Check.at_most("x", 3, 3).passed
    assert Check.at_least("x", 3, 3).passed


def test_a_limit_in_words_reads_as_a_wish():
    check = Check(name="answers", measured="KeyError: 'series'", limit="an answer to every case", passed=False)
    assert str(check) == "answers: KeyError: 'series' (wanted: an answer to every case)"


def test_a_verdict_is_truthy_only_when_all_checks_passed():
    good, bad = Check.at_most("a", 1, 2), Check.at_most("b", 3, 2, advice="do this")
    assert Verdict(checks=[good])
    verdict = Verdict(checks=[good, bad])
    assert not verdict
    assert verdict.failures == [bad]
    assert str(bad) == "b is 3 (limit 2): do this"


def test_a_verdict_over_nothing_cannot_be_made():
    with pytest.raises(ValidationError):
        Verdict(checks=[])


def test_a_report_survives_disk_with_nan_and_writes_flat_metrics(tmp_path):
    report = Report(stage="train", headline="x", metrics={"loss": 1.5}, verdict=Verdict(checks=[Check.at_most("x", math.nan, 1)]))
    report.write(tmp_path)
    assert Report.read(tmp_path, "train") == report
    assert (tmp_path / "train.metrics.json").read_text() == '{\n "loss": 1.5\n}\n'
