"""Which run is better: a clear winner, a trade, a tie, and runs that cannot be trusted."""

import numpy as np

from paddleship.pages import comparison
from paddleship.pages.comparison import Compared
from paddleship.reports import row_scores
from paddleship.reports.finding import Finding
from tests.paddleship.pages.made import reports


def run(name, *, failure=None, params=(), sweep="", **values):
    return Compared.of(name, reports(**values), dict(params), failure=failure, sweep=sweep)


def answer(*runs):
    return comparison.answer(runs).replace("\xa0", " ")


def test_a_run_that_beats_the_others_is_named_with_what_it_is_better_in():
    said = answer(run("a", accuracy=0.86), run("b", accuracy=0.80), run("c", accuracy=0.70))
    assert said == ("a is better: validation accuracy 0.8600 against 0.8000 of b. Latency is equal (20.0 µs). Size is equal (252 MB).")


def test_a_trade_names_the_best_in_each_objective():
    said = answer(run("right", accuracy=0.9, p50=0.2), run("fast", accuracy=0.8, p50=0.02))
    assert said == (
        "No run is better in everything: right has the best score (validation accuracy 0.9000 against 0.8000 of fast); fast has the best "
        "latency (20.0 µs for a request against 200 µs of right). Size is equal (252 MB)."
    )


def test_runs_that_share_the_best_of_something_are_named_together_and_no_difference_is_denied():
    said = answer(run("a", size=15e6), run("b", size=28e6, accuracy=0.861), run("c", size=15e6))
    assert said == (
        "It cannot be told which is better: a and c have the best size (15.0 MB against 28.0 MB of b). No difference in score shows "
        "(0.8610 against 0.8600). Latency is equal (20.0 µs). More held-out rows would tell, or other seeds."
    )


def test_a_tie_is_not_decided_and_says_what_would_tell():
    said = answer(run("a", accuracy=0.860), run("b", accuracy=0.861))
    assert said.startswith("It cannot be told which is better. No difference in score shows (0.8610 against 0.8600). Latency is equal")
    assert said.endswith("More held-out rows would tell, or other seeds.")


def test_a_tie_of_known_rows_has_its_interval():
    one, other = reports(accuracy=0.9), reports(accuracy=0.898)
    for made, wrong in ((one, 100), (other, 102)):
        made[1].facts["row_scores"] = row_scores.pack((np.arange(1000) >= wrong) / 1000)
    runs = [Compared.of(name, made, {}) for name, made in (("a", one), ("b", other))]
    assert "No difference in score shows (0.9000 against 0.8980; +0.0020" not in answer(*runs)
    assert "No difference in score shows (0.9000 against 0.8980 (+0.0020, 95% interval -0.00" in answer(*runs)


def test_what_was_not_compared_is_not_called_alike():
    here, there = run("a", p50=0.002, valid=False), run("b", p50=0.2)
    assert "Latency is not compared, because the machine was not free." in answer(here, there)
    other = reports(accuracy=0.5)
    other[0].facts["data_sha256"] = "0ther"
    assert "Score is not compared, because the scores are on different rows." in answer(
        run("a", accuracy=0.99), Compared.of("b", other, {})
    )
    trained = run("a", until="benchmark"), run("b")
    assert "Size is not compared, because one is of the winner's files and one of the image." in answer(*trained)
    assert comparison.doubts(trained) == ["one is of the winner's files and one of the image, and not compared there"]


def test_a_disturbed_run_does_not_hide_the_difference_of_the_others():
    runs = run("disturbed", p50=0.002, valid=False), run("fast", p50=0.02), run("slow", p50=2.0)
    assert "fast has the best latency (20.0 µs for a request against 2.00 ms of slow)" in answer(*runs)


def test_a_latency_that_is_not_valid_decides_nothing_and_is_a_doubt():
    runs = run("a", p50=0.02, valid=False), run("b", p50=0.2)
    assert answer(*runs).startswith("It cannot be told which is better")
    assert comparison.doubts(runs) == ["a: the speed is not valid: the machine was not free, so the latency is not compared"]
    assert comparison.doubts([run("a"), run("b")]) == []


def test_a_latency_that_the_machine_may_have_changed_is_compared_within_a_sweep_only():
    one, other = {"p50": 0.026, "eager": 0.3}, {"p50": 0.039, "eager": 0.57}
    apart = run("a", **one), run("b", **other)
    reason = "eager itself took 0.300 ms and 0.570 ms, so the machine's speed or the model changed"
    assert f"Latency is not compared, because {reason}" in answer(*apart).replace("300 µs", "0.300 ms").replace("570 µs", "0.570 ms")
    assert len(comparison.doubts(apart)) == 1
    assert comparison.best(apart) is None
    assert answer(run("a", sweep="s", **one), run("b", sweep="s", **other)).startswith("a is better: 26.0 µs for a request against 39.0 µs")
    assert answer(run("a", **one), run("b", p50=0.039, eager=0.301)).startswith("a is better: 26.0 µs")


def test_the_smaller_of_two_that_were_not_compared_in_speed_is_not_called_better():
    runs = run("a", size=10.2e6, valid=False), run("b", size=10.4e6, valid=False)
    assert answer(*runs).startswith("It cannot be told which is better: a has the best size (10.2 MB against 10.4 MB of b). Score is equal")
    three = answer(*runs, run("c", size=10.6e6, valid=False))
    assert "Latency is not compared, because the machine was not free." in three


def few_rows(name, right, **values):
    made = reports(accuracy=right / 20, **values)
    made[0].metrics["validation_rows"] = 20
    made[1].facts["row_scores"] = row_scores.pack((np.arange(20) < right) / 20)
    return Compared.of(name, made, {})


def test_a_worse_model_is_not_better_for_its_size_where_too_few_rows_show_no_difference():
    runs = few_rows("large", 18, size=206e6), few_rows("small", 13, size=180e6)
    assert comparison.best(runs) is None
    said = answer(*runs)
    assert said.startswith("It cannot be told which is better: small has the best size (180 MB against 206 MB of large). No difference in")
    assert said.endswith("More held-out rows would tell, or other seeds.")
    assert comparison.best([few_rows("large", 18, size=206e6), few_rows("small", 18, size=180e6)]) == "small"


def on_host(name, host, **values):
    made = reports(**values)
    next(one for one in made if one.stage == "benchmark").facts["measured_on"] = host
    return Compared.of(name, made, {})


def test_a_better_score_alone_is_not_better_where_the_latency_was_not_compared():
    invalid = run("a", accuracy=0.9, p50=5.0, valid=False), run("b", accuracy=0.8)
    elsewhere = on_host("a", "h1", accuracy=0.9, p50=5.0), on_host("b", "h2", accuracy=0.8)
    for runs, reason in ((invalid, "the machine was not free"), (elsewhere, "it was measured on different machines")):
        assert comparison.best(runs) is None
        said = answer(*runs)
        assert said.startswith("It cannot be told which is better: a has the best score (validation accuracy 0.9000 against 0.8000 of b).")
        assert f"Latency is not compared, because {reason}." in said
        assert said.endswith("`paddleship images compare` measures two images in turns, on one machine.")


def test_a_run_that_is_not_compared_with_the_others_leads_in_nothing():
    hosts = on_host("a", "h1", p50=0.02), on_host("b", "h1", p50=0.04), on_host("c", "h2", p50=2.0)
    assert answer(*hosts).startswith(
        "It cannot be told which is better: a has the best latency (20.0 µs for a request against 40.0 µs of b), not compared with c, "
        "because it was measured on different machines."
    )
    pairs = answer(*hosts, on_host("d", "h2", p50=1.0))
    assert "Latency is not compared everywhere, because it was measured on different machines." in pairs
    assert "best latency" not in pairs


def scored(name, metric, value, **values):
    made = reports(**values)
    made[1].metrics.clear()
    made[1].metrics |= {f"validation_{metric}": value, f"test_{metric}": value}
    return Compared.of(name, made, {})


def test_a_score_without_an_interval_makes_a_run_better_by_value():
    assert answer(scored("a", "r2", 0.9), scored("b", "r2", 0.8)).startswith(
        "a is better by value, without an interval: validation r2 0.9000 against 0.8000 of b. Latency"
    )
    faster = answer(scored("a", "r2", 0.9), scored("b", "r2", 0.8, p50=0.2))
    assert faster.startswith("a is better: validation r2 0.9000 against 0.8000 of b (by value, without an interval); 20.0 µs")


def test_more_rows_are_no_advice_for_scores_of_different_metrics():
    said = answer(run("a"), scored("b", "r2", 0.9))
    assert "More held-out rows" not in said
    assert said.endswith("Scores of one metric on the same rows would tell.")


def test_runs_without_a_score_are_compared_in_what_they_have():
    one, other = reports(p50=0.02), reports(p50=0.2)
    one[1].metrics = other[1].metrics = {}
    said = answer(Compared.of("a", one, {}), Compared.of("b", other, {}))
    assert said == "a is better: 20.0 µs for a request against 200 µs of b. No run has a score. Size is equal (252 MB)."


def test_runs_of_different_tasks_are_not_ranked():
    runs = run("a", params={"data.classes": "[x, y]"}, accuracy=0.9), run("b", params={"data.classes": "[u, v]"}, accuracy=0.7)
    assert answer(*runs) == "None of these runs is better, because they answer different questions: data.classes is [x, y] and [u, v]."
    assert comparison.best(runs) is None


def with_findings(name, *findings, **values):
    made = reports(**values)
    made[1].findings = [Finding(kind, "warning", message) for kind, message in findings]
    return Compared.of(name, made, {})


def test_a_warning_has_a_line_for_each_kind_with_the_runs_that_have_it():
    busy, linear = ("imprecise", "busy"), ("below-linear", "a linear model has 0.95")
    assert comparison.warnings([with_findings("a", busy, linear), with_findings("b", busy)]) == [
        "imprecise: all runs: busy",
        "below-linear: a: a linear model has 0.95",
    ]
    three = [with_findings(name, ("imprecise", f"{name} busy")) for name in "abc"]
    assert comparison.warnings(three) == ["imprecise: a: a busy; b: b busy; and 1 more such finding"]
    assert comparison.warnings([with_findings("a", linear), with_findings("b", busy, wrong=1)]) == [
        "below-linear: a: a linear model has 0.95"
    ]


def test_a_disturbed_benchmark_is_a_doubt_and_no_warning_as_well():
    runs = with_findings("a", ("disturbed", "other load"), valid=False), with_findings("b")
    assert comparison.doubts(runs)
    assert comparison.warnings(runs) == []


def test_a_run_that_measured_nothing_is_a_doubt():
    runs = run("a"), run("b", until="train")
    assert comparison.doubts(runs) == ["b: it measured no candidate"]


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
    assert comparison.doubts(runs) == ["the scores are on different rows, and not compared there"]


def test_only_the_params_that_differ_are_shown():
    runs = run("a", params={"x": "1", "y": "2"}), run("b", params={"x": "1", "y": "3", "z": "4"})
    assert comparison.differing(runs) == {"y": ["2", "3"], "z": ["–", "4"]}
