"""When the goals of `make bench` count as met, and its table. Its short form runs in test_peers."""

import pytest

from benchmarks.choice.__main__ import line, met, summary, table
from benchmarks.choice.contest import Regret, Result
from benchmarks.choice.models import MODELS
from paddleship.statistics.estimates import Interval


def row(p50_ms, **rest):
    status = {"status": "measured", "reason": "", "p50_ms": p50_ms, "winner": False, "samples": 100}
    return {**status, "speedup": 10 / p50_ms, "speedup_low": 1.0, "speedup_high": 20.0, **rest}


def result(gain=5.0, apart=1.0):
    rows = {"eager": row(10.0), "paddle": row(8.0), "onnxruntime": row(10 / gain, winner=True)}
    rows |= {"openvino": {"status": "failed", "reason": "flips", "stage": "verify"}}
    regret = Regret("paddle" if apart > 1 else "onnxruntime", Interval(apart, apart - 0.01, apart + 0.01), 10.0, ["paddle"])
    return Result("model", rows, "onnxruntime", 0.9, regret, {"verify": 3.0})


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ([result()] * 10, True),
        ([result(gain=3.0)] * 10, False),
        ([result(apart=1.2)] + [result()] * 9, True),
        ([result(apart=1.2)] * 2 + [result()] * 8, False),
        ([result(apart=1.04)] * 10, True),
        ([result()] * 9 + [Result("broken", {}, failed="error: verify: nothing passed")], False),
        ([Result("broken", {}, failed="error: verify: nothing passed")], False),
    ],
)
def test_the_mean_gain_nine_right_choices_in_ten_and_no_failure_are_asked_for(results, expected):
    assert met(summary(results)) is expected


def test_the_table_marks_the_choice_and_gives_the_reasons_of_what_is_missing():
    shown = table([result(apart=1.2), Result("broken", {}, failed="error: verify: nothing passed")])
    assert "[2]" in shown
    assert " ✗" in shown
    assert "model, openvino: flips" in shown
    assert "broken: FAILED: error: verify: nothing passed" in shown
    assert "regret 20.0%" in line(result(apart=1.2))


def test_ten_models_at_least():
    assert len(MODELS) >= 10
