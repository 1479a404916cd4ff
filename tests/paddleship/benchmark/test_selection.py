import pytest

from paddleship.benchmark.selection import choose
from paddleship.config.sections.select import Select
from paddleship.errors import ParamsError


def row(p50_ms, throughput_per_s, **others):
    plain = {"p90_ms": None, "p95_ms": None, "p99_ms": None, "precision": "float32", "peak_memory_bytes": 1e8, "flip_rate_high": 0.01}
    return {"p50_ms": p50_ms, "throughput_per_s": throughput_per_s, "image_bytes": 9e8, "cost_per_million": 1 / p50_ms, **plain, **others}


ROWS = {
    "paddle": row(2.0, 900.0, p90_ms=3.0),
    "onnxruntime": row(1.0, 500.0, p90_ms=4.0, p95_ms=5.0, p99_ms=6.0, image_bytes=2e8),
}
INT8 = {"int8": row(0.9, 950.0, precision="int8", flip_rate_high=0.015), **ROWS}


@pytest.mark.parametrize(
    ("objective", "winner"),
    [("p50_ms", "onnxruntime"), ("throughput_per_s", "paddle"), ("cost_per_million", "paddle"), ("image_bytes", "onnxruntime")],
)
def test_the_objective_decides(objective, winner):
    choice = choose(ROWS, Select(objective=objective))
    assert choice.candidate == winner
    assert choice.metric == objective
    assert "worse" in choice.reason


def test_too_few_samples_fall_back_to_the_next_percentile_and_say_so():
    choice = choose(ROWS, Select(objective="p99_ms"))
    assert choice.metric == "p90_ms"
    assert choice.candidate == "paddle"
    assert "too few samples for p99_ms" in choice.reason


def test_a_slow_candidate_with_few_samples_does_not_weaken_the_choice_among_the_fast():
    slow = row(8.0, 100.0, p90_ms=9.0)
    quick = row(1.1, 480.0, p90_ms=2.0, p95_ms=3.0, p99_ms=7.0)
    rows = {"slow": slow, "quick": quick, "onnxruntime": ROWS["onnxruntime"]}
    choice = choose(rows, Select(objective="p99_ms"))
    assert (choice.candidate, choice.metric) == ("onnxruntime", "p99_ms")
    assert "the next best, quick, is 17% worse" in choice.reason
    assert "too few samples" not in choice.reason
    choice = choose({name: rows[name] for name in ("slow", "onnxruntime")}, Select(objective="p99_ms"))
    assert "slow, is 125% worse in p90_ms, with too few samples for p99_ms" in choice.reason
    wish = choose(rows, Select(objective="p99_ms", candidate="slow"))
    assert "onnxruntime has 125% better p90_ms" in wish.reason


def test_a_wish_is_followed_and_its_price_is_named():
    choice = choose(ROWS, Select(objective="p50_ms", candidate="paddle"))
    assert choice.candidate == "paddle"
    assert "onnxruntime has 100% better p50_ms" in choice.reason


def test_a_wish_for_what_is_faster_and_not_beyond_doubt_does_not_call_the_slower_one_better():
    choice = choose(INT8, Select(objective="p50_ms", candidate="int8"), compare=lambda *_: (1.1, 0.95, 1.2))
    assert choice.candidate == "int8"
    assert choice.refused["int8"] in choice.reason
    assert "better" not in choice.reason


def test_a_wish_for_what_was_not_proven_is_an_error():
    with pytest.raises(ParamsError, match=r"select\.candidate.*paddle-onednn.*paddle, onnxruntime"):
        choose(ROWS, Select(candidate="paddle-onednn"))


@pytest.mark.parametrize(
    ("limits", "winner", "loser", "words"),
    [
        ({"slo_p99_ms": 10}, "onnxruntime", "paddle", "too few samples for p99_ms"),
        ({"max_memory_bytes": 90_000_000}, "paddle", "onnxruntime", "misses select.max_memory_bytes (peak_memory_bytes is 100,000,000"),
        ({"max_flip_rate": 0.005}, "paddle", "onnxruntime", "misses select.max_flip_rate (flip_rate_high is 0.01"),
    ],
)
def test_what_misses_a_constraint_takes_no_part_and_is_told_why(limits, winner, loser, words):
    rows = {name: dict(values) for name, values in ROWS.items()}
    if winner == "paddle":
        rows["paddle"] |= {"peak_memory_bytes": 1, "flip_rate_high": 0.0}
    choice = choose(rows, Select(objective="p50_ms", **limits))
    assert choice.candidate == winner
    assert words in choice.refused[loser]


def test_constraints_that_nothing_keeps_fail_with_the_nearest_candidate():
    choice = choose(ROWS, Select(objective="p50_ms", slo_p99_ms=5))
    assert choice.candidate is None
    assert [(check.measured, check.limit, check.passed) for check in choice.checks] == [(6.0, 5.0, False)]
    assert choice.checks[0].name == "p99_ms"
    assert {"onnxruntime", "select.slo_p99_ms"} <= set(choice.checks[0].advice.split())


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (0.0001, {"paddle", "p90_ms", "select.slo_p99_ms"}),
        (3.5, {"paddle", "p90_ms", "benchmark.max_seconds"}),
    ],
)
def test_a_limit_on_what_nothing_has_samples_for_says_how_near_the_best_came(limit, words):
    rows = {name: {**values, "p95_ms": None, "p99_ms": None} for name, values in ROWS.items()}
    (check,) = choose(rows, Select(slo_p99_ms=limit)).checks
    assert not check.passed
    assert words <= set(check.advice.replace(",", "").split())
    assert "None" not in str(check)


def test_constraints_that_only_exclude_each_other_fail_too():
    rows = {"small": row(1.0, 1.0, peak_memory_bytes=1, p99_ms=9.0), "quick": row(1.0, 1.0, p99_ms=1.0)}
    choice = choose(rows, Select(objective="p50_ms", slo_p99_ms=5, max_memory_bytes=10))
    assert choice.candidate is None
    assert [check.name for check in choice.checks if not check.passed] == ["candidates_within_constraints"]


@pytest.mark.parametrize("precision", ["int8", "float32-2:4"])
def test_a_lower_precision_wins_only_where_it_is_faster_beyond_doubt(precision):
    rows = {name: {**row, "precision": precision} if name == "int8" else row for name, row in INT8.items()}
    doubtful = choose(rows, Select(objective="p50_ms"), compare=lambda *_: (1.1, 0.98, 1.2))
    assert doubtful.candidate == "onnxruntime"
    assert all(words in doubtful.refused["int8"] for words in ("onnxruntime (0.98 to 1.20×", "1.00×", f"({precision})"))
    certain = choose(rows, Select(objective="p50_ms"), compare=lambda *_: (1.1, 1.05, 1.2))
    assert certain.candidate == "int8"
    noisy = choose(rows, Select(objective="p50_ms"), compare=lambda *_: (1.1, 1.05, 1.2), floor=1.06)
    assert noisy.candidate == "onnxruntime"


EAGER = {"paddle-eager": row(0.9, 950.0), **ROWS}


def test_eager_ships_only_where_no_static_graph_comes_near_it_and_says_what_it_needs():
    choice = choose(EAGER, Select(objective="p50_ms"), compare=lambda *_: (1.1, 1.05, 1.2), eager=row(0.91, 940.0))
    assert choice.candidate == "paddle-eager"
    assert "Python code" in choice.reason
    doubtful = choose(EAGER, Select(objective="p50_ms"), compare=lambda *_: (1.1, 0.98, 1.2), eager=row(0.91, 940.0))
    assert doubtful.candidate == "onnxruntime"
    assert doubtful.refused["paddle-eager"] in doubtful.reason
    assert "onnxruntime (0.98 to 1.20×" in doubtful.refused["paddle-eager"]


def test_eager_that_is_faster_and_no_candidate_says_how_to_ship_it():
    assert "to ship it, add paddle-eager to optimize.candidates" in choose(ROWS, Select(objective="p50_ms"), eager=row(0.5, 100.0)).reason
    among = {**ROWS, "paddle-eager": row(1.1, 900.0)}
    assert "to ship it" not in choose(among, Select(objective="p50_ms"), eager=row(0.5, 100.0)).reason


@pytest.mark.parametrize("absent", ["could not be made", ""])
def test_eager_that_was_asked_for_and_failed_says_so_and_is_not_advised(absent):
    reason = choose(ROWS, Select(objective="p50_ms"), eager=row(0.5, 100.0), absent=absent).reason
    assert ("add paddle-eager" in reason) is not bool(absent)
    assert absent in reason


def test_a_wish_for_eager_says_what_it_needs():
    choice = choose({**ROWS, "paddle-eager": row(3.0, 1.0)}, Select(objective="p50_ms", candidate="paddle-eager"))
    assert "onnxruntime has 3.0× better p50_ms; it needs the model's Python code" in choice.reason


def test_a_lower_precision_that_is_only_smaller_does_not_win():
    rows = {"int8": row(1.0, 500.0, precision="int8", image_bytes=1e8), **ROWS}
    assert choose(rows, Select(objective="image_bytes"), compare=lambda *_: (1.0, 0.98, 1.02)).candidate == "onnxruntime"
    assert choose(rows, Select(objective="image_bytes"), compare=lambda *_: (1.1, 1.05, 1.2)).candidate == "int8"


def test_what_eager_would_cost_is_told_and_that_it_would_cost_less_too():
    assert "in p50_ms eager is 8.0× worse" in choose(ROWS, Select(objective="p50_ms"), eager=row(8.0, 100.0)).reason
    reason = choose(ROWS, Select(objective="p50_ms"), eager=row(0.5, 100.0)).reason
    assert "in p50_ms eager is 100% better (0.5 against 1 of onnxruntime), so a static graph is not faster" in reason


MIXED = {"paddle": row(0.05, 900.0, p90_ms=0.2, p95_ms=0.3, p99_ms=0.4, speedup_low=3.1, speedup_high=3.25)}


def test_a_gain_in_the_median_and_a_loss_in_the_objective_are_told_metric_by_metric():
    reason = choose(MIXED, Select(objective="p99_ms"), eager=row(0.16, 300.0, p90_ms=0.19, p95_ms=0.22, p99_ms=0.25)).reason
    assert "in p99_ms eager is 60% better (0.25 against 0.4 of paddle)" in reason
    assert "the opposite: paddle is 3.2× better (0.05 against 0.16; paddle is 3.10 to 3.25× as fast" in reason
    assert "not faster" not in reason


def test_eager_without_samples_for_the_objective_says_so_and_shows_the_next_percentile():
    reason = choose(MIXED, Select(objective="p99_ms"), eager=row(0.16, 300.0, p90_ms=0.25, p95_ms=0.45)).reason
    assert "eager has too few samples for p99_ms; in p95_ms eager is 50% worse (0.45 against 0.3 of paddle)" in reason


def test_the_only_candidate_is_not_the_best_of_one():
    assert "the only proven candidate" in choose(MIXED, Select(objective="p99_ms")).reason
