"""The first screen of a run: what it says of a winner, of doubts, and of a failure."""

import pytest

from paddleship.pages.first_screen import of_run
from paddleship.reports import units
from paddleship.reports.finding import Finding
from tests.paddleship.pages.made import reports


def test_a_run_that_passed_says_how_fast_how_right_and_how_large_its_winner_is():
    screen = of_run(reports())
    assert screen.answer.replace("\xa0", " ") == (
        "onnxruntime is 7.50× as fast as eager (95% interval 6.75× to 8.25×), 20.0 µs for a request. "
        "It decides as eager does in every case that was asked. "
        "Test accuracy 0.8600 (95% interval 0.8369 to 0.8809, 1,000 rows). The image takes 252 MB."
    )
    assert (screen.trust, screen.mark, screen.trusted, screen.usable) == ("All 8 gates passed, with 1 warning", "passed", True, True)


def test_a_speed_that_is_not_valid_is_said_first_and_not_claimed():
    screen = of_run(reports(valid=False))
    assert screen.answer.startswith("How fast onnxruntime is cannot be told")
    assert screen.trust.endswith("but the speed is not valid: the machine was not free")
    assert (screen.mark, screen.usable, screen.trusted) == ("speed not valid", True, False)
    assert "--again benchmark" in screen.advice
    assert screen.markdown().startswith("**All 8 gates passed, with 1 warning, but the speed is not valid: the machine was not free.**")


def test_a_missed_gate_names_stage_value_and_limit():
    screen = of_run(reports(wrong=3))
    assert screen.trust == "Failed: accept: wrong_answers is 3 (limit 0)"
    assert (screen.mark, screen.usable, screen.trusted) == ("failed at accept", False, False)


def test_a_run_that_an_error_ended_gives_the_error():
    screen = of_run(reports(until="train"), failure="export: no GPU")
    assert screen.trust == "Failed: export: no GPU"
    assert screen.answer == "No candidate was measured. train: trained."
    assert of_run([], failure="no data").answer == "Nothing was reported."


def test_an_early_end_is_named():
    assert of_run(reports(until="benchmark")).trust.startswith("All 6 gates up to benchmark passed")
    assert "The winner's files take 1.00 kB" in of_run(reports(until="benchmark")).answer.replace("\xa0", " ")


def test_a_run_without_reports_or_without_one_of_them_is_not_trusted():
    nothing = of_run([])
    assert (nothing.trust, nothing.usable, nothing.trusted) == ("Not proven: nothing was reported", False, False)
    gap = of_run([report for report in reports() if report.stage not in ("train", "verify")])
    assert (gap.trust, gap.mark, gap.usable, gap.trusted) == (
        "Not proven: the reports of train, verify are missing", "not proven", False, False
    )  # fmt: skip
    assert of_run(reports(until="prepare")).trusted


def test_an_error_is_not_counted_as_a_warning():
    made = reports()
    made[1].findings = [Finding("bad-model", "error", "x"), *made[1].findings * 2]
    assert of_run(made).trust == "All 8 gates passed, with 1 error and 2 warnings"


def test_a_score_without_an_interval_has_its_rows_and_no_figure_is_rounded_to_0_or_1():
    made = reports(flips=0.00003, accuracy=0.99999)
    assert "0.003% of its decisions differ" in of_run(made).answer
    assert "Test accuracy 0.99999 (95% interval" in of_run(made).answer
    made[1].metrics = {"validation_r2": 2e-05, "test_r2": 2e-05}
    assert "Test r2 2e-05 (1,000 rows)" in of_run(made).answer


def test_decisions_that_differ_are_a_share_and_a_gain_that_is_none_is_not_claimed():
    flipped = of_run(reports(flips=0.0125)).answer
    assert "1.25% of its decisions differ from eager's" in flipped
    slow = reports()
    slow[3].candidates["onnxruntime"]["difference"] = "cannot tell"
    assert "is not measurably faster than eager" in of_run(slow).answer


@pytest.mark.parametrize(
    ("value", "text"), [(0.00463, "4.63 µs"), (0.9996, "1.00 ms"), (17.25, "17.2 ms"), (999.7, "1.00 s"), (1234, "1.23 s")]
)
def test_a_time_has_three_digits_in_its_unit(value, text):
    assert units.duration(value).replace("\xa0", " ") == text


@pytest.mark.parametrize(("value", "text"), [(252, "252"), (1234.4, "1,234"), (7.5, "7.50"), (0.0123, "0.0123"), (0, "0.00")])
def test_a_number_has_three_digits(value, text):
    assert units.three(value) == text
