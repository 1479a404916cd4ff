"""The first screen of a run: what it says of a winner, of doubts, and of a failure."""

import pytest

from paddleship.pages.first_screen import of_run
from paddleship.reports import units
from tests.paddleship.pages.made import reports


def test_a_run_that_passed_says_how_fast_how_right_and_how_large_its_winner_is():
    screen = of_run(reports())
    assert screen.answer.replace("\xa0", " ") == (
        "onnxruntime is 7.50× as fast as eager (95% interval 6.75× to 8.25×), 20.0 µs for a request. "
        "It decides as eager does in every case that was asked. Test accuracy 0.8600. The image takes 252 MB."
    )
    assert (screen.trust, screen.mark, screen.trusted, screen.usable) == ("All 6 gates passed, with 1 warning", "passed", True, True)


def test_a_speed_that_is_not_valid_is_said_first_and_not_claimed():
    screen = of_run(reports(valid=False))
    assert screen.answer.startswith("How fast onnxruntime is cannot be told")
    assert screen.trust.endswith("but the speed is not valid: the machine was not free")
    assert (screen.mark, screen.usable, screen.trusted) == ("speed not valid", True, False)
    assert "--again benchmark" in screen.advice
    assert screen.markdown().startswith("**All 6 gates passed, with 1 warning, but the speed is not valid: the machine was not free.**")


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
    assert of_run(reports(until="benchmark")).trust.startswith("All 4 gates up to benchmark passed")
    assert "The winner's files take 1.00 kB" in of_run(reports(until="benchmark")).answer.replace("\xa0", " ")


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
