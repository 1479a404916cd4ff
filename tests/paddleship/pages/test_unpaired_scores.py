"""Why scores have no paired difference: which run has no record of its rows, or other rows, and the next step."""

import numpy as np
import pytest

from paddleship.pages import comparison, comparison_page
from paddleship.pages.comparison import Compared
from paddleship.reports import row_scores
from paddleship.reports.report import Report
from tests.paddleship.pages.made import PASSED, reports
from tests.paddleship.pages.test_pages import parts


def run(name, *, rows=None, data="da7a", record=None, score=None, params=()):
    """A run that recorded so many rows, or this text; None: one of an earlier version."""
    made = reports()
    made[0].facts["data_sha256"] = data
    if rows is not None:
        made[1].facts["row_scores"] = row_scores.pack(np.full(rows, 0.86 / rows))
    if record is not None:
        made[1].facts["row_scores"] = record
    if score:
        made[1] = Report(stage="train", headline="", metrics={score: 0.5}, verdict=PASSED, facts={"row_scores": ""})
    return Compared.of(name, made, dict(params))


def test_runs_that_recorded_the_same_rows_have_nothing_to_say():
    assert comparison.notes([run("a", rows=100), run("b", rows=100)]) == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, ("by the interval of each", "its rows are not recorded, as in runs of earlier versions", "--again train")),
        ({"record": ""}, ("by the interval of each", "too many of them or a score is not finite", "fewer validation rows")),
        ({"record": "no such text"}, ("by the interval of each", "the record of its rows cannot be read", "--again train")),
    ],
)
def test_a_run_without_recorded_rows_is_named_with_the_reason_and_the_next_step(values, words):
    (said,) = comparison.notes([run("a", rows=100), run("older", **values), run("c", rows=100)])
    assert said.startswith("The score of older is compared")
    assert all(word in said for word in words), said


def test_a_metric_that_is_no_sum_says_so_for_all_runs_at_once():
    (said,) = comparison.notes([run("a", score="validation_own_metric"), run("b", score="validation_own_metric")])
    assert said == (
        "The score of a and of b is compared by value, without an interval, not by a paired difference, because their metric is no sum "
        "over rows: a task kind whose score has `parts` or `shares` records the rows."
    )


def test_records_of_different_length_are_named_with_both():
    (said,) = comparison.notes([run("a", rows=100), run("b", rows=99)])
    assert said.startswith("The score of a has 100 rows and that of b has 99, so there is no paired difference: ")


def test_runs_on_different_rows_are_grouped():
    (said,) = comparison.notes([run("a", rows=9), run("b", rows=9, data="0ther"), run("c", rows=9)])
    assert said.startswith("There is no paired difference between runs on different rows (a, c / b): ")


def test_runs_of_different_tasks_are_not_compared_at_all():
    runs = [run("a", params={"data.classes": "[x, y]"}), run("b", params={"data.classes": "[u, v]"})]
    assert comparison.notes(runs) == []


def test_the_page_says_it_after_the_answer_and_names_no_run_in_part():
    long = "a run with a name that is far too long for any chart of it: " + "x" * 60
    page = comparison_page.of([run(long), run("b", rows=100)])
    text = parts(page).text
    assert text.index("It cannot be told") < text.index(f"The score of {long} is compared by the interval of each") < text.index("Runs")
    chart = page[page.index("<svg") : page.index("</svg>")]
    assert "far too long" not in chart
