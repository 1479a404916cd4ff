import pytest

from paddleship.errors import ParamsError
from paddleship.params import Select
from paddleship.selection import choose

ROWS = {
    "paddle": {"p50_ms": 2.0, "p90_ms": 3.0, "p95_ms": None, "p99_ms": None, "throughput_per_s": 900.0},
    "onnxruntime": {"p50_ms": 1.0, "p90_ms": 4.0, "p95_ms": 5.0, "p99_ms": 6.0, "throughput_per_s": 500.0},
}


@pytest.mark.parametrize(("objective", "winner"), [("p50_ms", "onnxruntime"), ("throughput_per_s", "paddle")])
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


def test_a_wish_is_followed_and_its_price_is_named():
    choice = choose(ROWS, Select(objective="p50_ms", candidate="paddle"))
    assert choice.candidate == "paddle"
    assert "onnxruntime has 100% better p50_ms" in choice.reason


def test_a_wish_for_what_was_not_proven_is_an_error():
    with pytest.raises(ParamsError, match="not proven and measured"):
        choose(ROWS, Select(candidate="paddle-onednn"))
