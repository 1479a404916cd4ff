"""Which run is better: a clear winner, a trade, a tie, and runs that cannot be trusted."""

from paddleship.pages import comparison
from paddleship.pages.comparison import Compared
from tests.paddleship.pages.made import reports


def run(name, *, failure=None, params=(), **values):
    return Compared.of(name, reports(**values), dict(params), failure=failure)


def answer(*runs):
    return comparison.answer(runs).replace("\xa0", " ")


def test_a_run_that_beats_the_others_is_named_with_what_it_is_better_in():
    said = answer(run("a", accuracy=0.86), run("b", accuracy=0.80), run("c", accuracy=0.70))
    assert said == ("a is better: validation accuracy 0.8600 against 0.8000 of b; in latency or size it is not measurably worse.")


def test_a_trade_names_the_best_in_each_objective():
    said = answer(run("right", accuracy=0.9, p50=0.2), run("fast", accuracy=0.8, p50=0.02))
    assert said == (
        "No run is better in everything: right has the best score (validation accuracy 0.9000 against 0.8000 of fast); fast has the best "
        "latency (20.0 µs for a request against 200 µs of right). In size they cannot be told apart."
    )


def test_runs_that_share_the_best_of_something_are_named_together_and_no_difference_is_denied():
    said = answer(run("a", size=15e6), run("b", size=28e6, accuracy=0.861), run("c", size=15e6))
    assert said == (
        "No run is better in everything: a and c have the best size (15.0 MB against 28.0 MB of b). In score and latency they cannot be "
        "told apart: more held-out rows would tell, or other seeds; measuring again on one idle machine would tell "
        "(`paddleship run --again benchmark`)."
    )


def test_a_tie_is_not_decided_and_says_what_would_tell():
    said = answer(run("a", accuracy=0.860), run("b", accuracy=0.861))
    assert said.startswith("It cannot be told which is better: a and b differ by less than their intervals; more held-out rows")


def test_a_latency_that_is_not_valid_decides_nothing_and_is_a_doubt():
    runs = run("a", p50=0.02, valid=False), run("b", p50=0.2)
    assert answer(*runs).startswith("It cannot be told which is better")
    assert comparison.doubts(runs) == ["a: the speed is not valid: the machine was not free, so the latency is not compared"]
    assert comparison.doubts([run("a"), run("b")]) == []


def test_a_run_that_failed_cannot_be_chosen_however_good_it_is():
    runs = run("a", accuracy=0.99, wrong=1), run("b", accuracy=0.8), run("c", accuracy=0.7)
    assert answer(*runs).startswith("b is better: validation accuracy 0.8000 against 0.7000 of c")
    assert answer(*runs).endswith("a cannot be chosen.")
    assert answer(*runs[:2]) == "b is the only one that can be chosen. a cannot be chosen."
    assert comparison.doubts(runs) == ["a: Failed: accept: wrong_answers is 1 (limit 0)"]
    assert answer(run("a", wrong=1), run("b", failure="it was cancelled")).startswith("None of these runs can be chosen")


def test_scores_on_other_rows_are_not_compared():
    other = reports(accuracy=0.7)
    other[0].facts["data_sha256"] = "0ther"
    runs = run("a", accuracy=0.9), Compared.of("b", other, {})
    assert answer(*runs).startswith("It cannot be told")
    assert comparison.doubts(runs) == ["the runs do not have the same rows, so scores are compared only where they do"]


def test_only_the_params_that_differ_are_shown():
    runs = run("a", params={"x": "1", "y": "2"}), run("b", params={"x": "1", "y": "3", "z": "4"})
    assert comparison.differing(runs) == {"y": ["2", "3"], "z": ["–", "4"]}
