"""What `paddleship runs compare` shows and concludes."""

from datetime import UTC, datetime

import pytest

from paddleship.cli import run_comparison
from paddleship.cli.run_pair import RunPair
from paddleship.orchestration import terminal
from paddleship.reports.finding import Finding
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict
from paddleship.tracking.runs import Run

PASSED = Verdict(checks=[Check.at_least("x", 1, 1)])


def run(name, *, metrics=None, params=None, tags=None, status="FINISHED"):
    tags = {"prefect_flow_run": "0", "data_sha256": "rows", "measured_on": "here", **(tags or {})}
    return Run("id", "1", name, "reviews", datetime(2026, 1, 1, tzinfo=UTC), status, metrics or {}, params or {}, tags, None)


def pair(one, other, reports=((), ())):
    return RunPair.of(one, other, reports)


def rows(one, other, *, everything=False, reports=((), ())):
    columns = run_comparison.table(pair(one, other, reports), everything=everything).columns
    return list(zip(*([str(cell) for cell in column.cells] for column in columns), strict=True))


def measured(*, accuracy=0.8, p50_ms=1.0, eager_ms=3.0, size=100_000_000, data="rows", score="validation_accuracy"):
    """The reports of a run with these figures, whose intervals are a few percent wide."""
    row = {"p50_ms": p50_ms, "speedup": 3.0, "speedup_low": 2.95, "speedup_high": 3.05, "file_bytes": size}
    rows = {"onnxruntime": row, "eager": {"p50_ms": eager_ms}}
    facts = {"winner": "onnxruntime", "measured_on": "here", "effect": 0.02}
    return [
        Report(stage="prepare", headline="", metrics={"validation_rows": 4000}, verdict=PASSED, facts={"data_sha256": data}),
        Report(stage="train", headline="", metrics={score: accuracy}, verdict=PASSED),
        *(Report(stage=stage, headline="", verdict=PASSED) for stage in ("export", "optimize", "verify")),
        Report(stage="benchmark", headline="", metrics={}, verdict=PASSED, candidates=rows, facts=facts),
    ]


def test_only_rows_that_differ_are_shown_and_all_on_request():
    metrics = {"benchmark/p50_ms": 2, "train/test_accuracy": 0.875, "export/seconds": 1}
    one = run("one", metrics=metrics, params={"train.epochs": "8", "seed": "0"})
    other = run("other", metrics=metrics | {"benchmark/p50_ms": 1}, params={"train.epochs": "9", "seed": "0"})
    assert rows(one, other) == [("benchmark/p50_ms", "2", "1", "0.5×"), ("train.epochs", "8", "9", "")]
    everything = rows(one, other, everything=True)
    assert everything[:2] == rows(one, other), "those that differ come first"
    assert ("train/test_accuracy", "0.875", "0.875", "+0.0000") in everything
    assert len(everything) == 2 + run_comparison.equal_rows(pair(one, other))


def test_a_name_with_brackets_is_shown_as_it_is(capsys):
    terminal.show(run_comparison.table(pair(run("x [/b] y"), run("other")), everything=True))
    assert "x [/b] y" in capsys.readouterr().out


def test_the_score_of_the_validation_rows_comes_before_that_of_the_test_rows():
    metrics = {"train/test_accuracy": 0.875, "train/validation_accuracy": 0.75, "benchmark/speedup": 3, "a/b": 1}
    one, other = run("one", metrics=metrics), run("other", metrics={key: value + 0.05 for key, value in metrics.items()})
    found = rows(one, other)
    assert [row[0] for row in found] == ["train/validation_accuracy", "train/test_accuracy", "benchmark/speedup", "a/b"]
    assert [row[3] for row in found[:2]] == ["+0.0500", "+0.0500"]


def test_what_decides_comes_before_params_and_other_figures():
    one = run("one", metrics={"benchmark/speedup": 3, "train/test_accuracy": 0.875, "export/seconds": 1}, params={"train.epochs": "8"})
    metrics = {"benchmark/speedup": 4, "train/test_accuracy": 0.9, "export/seconds": 2}
    other = run("other", metrics=metrics, params={"train.epochs": "9"}, tags={"reason": "GateFailed", "failure": "train: x"})
    names, _, _, changes = zip(*rows(one, other), strict=True)
    assert names == ("outcome", "train/test_accuracy", "benchmark/speedup", "train.epochs", "export/seconds")
    assert changes[1] == "+0.0250"


def test_figures_that_differ_are_not_printed_as_equal():
    keys = ("train/test_accuracy", "benchmark/speedup", "package/image_bytes")
    one, other = (run("x", metrics=dict(zip(keys, values, strict=True))) for values in ((0.99999, 3.00001, 251e6), (1.0, 3.0, 251e6 + 1)))
    found = {name: rest for name, *rest in rows(one, other)}
    assert found["train/test_accuracy"] == ["0.99999", "1", "+1e-05"]
    assert found["benchmark/speedup"][:2] == ["3.00001", "3"]
    assert found["package/image_bytes"] == ["251,000,000", "251,000,001", "1.000000004×"]


@pytest.mark.parametrize(
    ("tags", "ratios"),
    [
        ({"benchmark_valid": "False"}, ("a benchmark was disturbed", "", "0.5×")),
        ({"measured_on": "another machine"}, ("measured on another machine", "", "0.5×")),
        ({"data_sha256": "other rows"}, ("0.5×", "0.5×", "")),
    ],
)
def test_figures_that_do_not_compare_have_no_ratio_and_the_reason_is_a_row(tags, ratios):
    keys = ("benchmark/p50_ms", "accept/http_p50_ms", "train/score")
    one, other = run("one", metrics=dict.fromkeys(keys, 2)), run("other", metrics=dict.fromkeys(keys, 1), tags=tags)
    found = {name: rest for name, *rest in rows(one, other)}
    assert tuple(found[key][-1] for key in keys) == ratios
    assert set(tags) <= found.keys()


@pytest.mark.parametrize(("eager_ms", "ratio"), [(3.0, "0.5×"), (9.0, "not compared")])
def test_a_latency_or_speedup_has_a_ratio_only_if_eager_was_equally_fast(eager_ms, ratio):
    metrics = {"benchmark/p50_ms": 2, "benchmark/speedup": 2, "accept/http_p50_ms": 2}
    one, other = run("one", metrics=metrics), run("other", metrics=dict.fromkeys(metrics, 1))
    changes = {name: rest[-1] for name, *rest in rows(one, other, reports=(measured(), measured(eager_ms=eager_ms)))}
    assert (changes["benchmark/p50_ms"], changes["benchmark/speedup"]) == (ratio, ratio)
    assert changes["accept/http_p50_ms"] == ("0.5×" if ratio == "0.5×" else "")


def test_scores_of_different_metrics_have_no_difference():
    metrics = {"train/test_accuracy": 0.5}
    one, other = run("one", metrics=metrics), run("other", metrics={"train/test_accuracy": 0.7})
    assert rows(one, other, reports=(measured(), measured(score="validation_r2")))[0][-1] == "not compared"


def test_the_conclusion_names_the_better_run_in_each_objective_and_what_cannot_be_told():
    one, other = run("wide"), run("narrow")
    said = run_comparison.conclusion(pair(one, other, (measured(size=120_000_000), measured(p50_ms=0.5, accuracy=0.801))))
    assert said == [
        "score: cannot tell, validation_accuracy 0.8000 and 0.8010 are too close",
        "latency: narrow is better, p50 500\xa0µs against 1.00\xa0ms",
        "size: narrow is better, the winner's files 100\xa0MB against 120\xa0MB",
        "nothing else was judged",
    ]


@pytest.mark.parametrize(
    ("tags", "reports", "line"),
    [
        ({"measured_on": "there"}, {"p50_ms": 0.5}, "latency: cannot tell, measured on another machine"),
        ({"benchmark_valid": "False"}, {"p50_ms": 0.5}, "latency: cannot tell, a benchmark was disturbed"),
        ({}, {"accuracy": 0.99, "data": "others"}, "score: cannot tell, the scores are on different rows"),
        ({}, {"score": "validation_r2"}, "score: cannot tell, the scores are of different metrics"),
    ],
)
def test_what_was_not_measured_alike_is_never_called_better(tags, reports, line):
    said = run_comparison.conclusion(pair(run("one"), run("other", tags=tags), (measured(), measured(**reports))))
    assert line in said


def test_what_has_no_paired_difference_is_said_with_the_reason():
    runs = [run("one (1)", params={"epochs": "1"}), run("other (2)", params={"epochs": "2"})]
    said = run_comparison.answer(runs, [measured(), measured(accuracy=0.81)])
    assert said[-1].startswith("The score of epochs=1 and of epochs=2 is compared by the interval of each, not by a paired difference")
    assert said[-1].endswith("`paddleship run --again train` with the same params records the rows.")


def test_the_answer_has_the_warnings_of_the_runs():
    runs, reports = [run("one (1)", params={"epochs": "1"}), run("other (2)", params={"epochs": "2"})], [measured(), measured(accuracy=0.9)]
    reports[1][0].findings = [Finding("below-linear", "warning", "a linear model has 0.95")]
    assert "warning: below-linear: epochs=2: a linear model has 0.95" in run_comparison.answer(runs, reports)


def test_a_run_that_did_not_pass_or_measure_is_named():
    failed = run("failed", status="FAILED", tags={"reason": "GateFailed", "failure": "train: accuracy is 0.7"})
    said = run_comparison.conclusion(pair(run("one"), failed, (measured(), [])))
    assert said == ["failed did not pass (GateFailed: train)", "cannot tell which is better: failed measured no winner"]


def test_runs_are_called_by_what_differs_and_by_the_end_of_their_names_where_that_is_not_enough():
    def labels(*params):
        return run_comparison._labels([run(f"r ({number})", params=one) for number, one in enumerate(params)])

    assert labels({"train.epochs": "1"}, {"train.epochs": "6"}) == ["epochs=1", "epochs=6"]
    assert labels({"train.epochs": "1"}, {"train.epochs": "1"}) == ["0", "1"]
    assert labels({"a": "1"}, {"a": "1"}, {"a": "2"}) == ["a=1 (0)", "a=1 (1)", "a=2 (2)"]
    assert labels({"x.a": "1", "y.a": "3"}, {"x.a": "2", "y.a": "4"}) == ["x.a=1, y.a=3", "x.a=2, y.a=4"]


def test_no_value_is_cut_in_the_name_of_a_run_of_a_comparison():
    def labels(*params):
        return run_comparison._labels([run(f"r ({number})", params=one) for number, one in enumerate(params)])

    long = "data/of/a/customer/in/a/deep/folder/"
    assert labels({"raw": f"{long}one", "x": "1"}, {"raw": f"{long}two", "x": "2"}) == ["x=1", "x=2"]
    assert labels({"raw": f"{long}one"}, {"raw": f"{long}two"}) == ["0", "1"]
