import numpy as np
import pytest

from benchmarks.aa import __main__ as bench
from benchmarks.aa import model
from paddleship.shipped.computing import runtimes
from paddleship.statistics.estimates import Interval

SPREAD = [[0.0, 0.01, -0.01], [0.02, 0.01, 0.0]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return model.make(tmp_path_factory.mktemp("aa") / "model")


def test_the_slowed_model_gives_the_same_answers(folder):
    batch = model.batches()[1][0]
    answer, slowed = runtimes.load(folder).run(batch)["y"], model.load_slowed(folder, 0.1).run(batch)["y"]
    assert np.array_equal(answer, slowed)
    assert answer.shape == batch["x"].shape


def repetitions(same, slowed, seconds=10.0):
    intervals = (Interval(1.0, 0.99, 1.01), Interval(0.91, 0.9, 0.92), Interval(1.0, 0.99, 1.01))
    return [bench.Repetition(*words, intervals, 3, seconds, 0.1, SPREAD, 1.0) for words in zip(same, slowed, strict=True)]


@pytest.mark.parametrize(
    ("same", "slowed", "seconds", "expected"),
    [
        (["cannot tell"] * 20, ["worse"] * 20, 10.0, True),
        (["better"] + ["cannot tell"] * 19, ["cannot tell"] + ["worse"] * 19, 10.0, True),
        (["better", "worse"] + ["cannot tell"] * 18, ["worse"] * 20, 10.0, False),
        (["cannot tell"] * 20, ["cannot tell"] * 2 + ["worse"] * 18, 10.0, False),
        (["cannot tell"] * 20, ["worse"] * 20, 61.0, False),
    ],
)
def test_one_wrong_verdict_in_twenty_is_allowed_and_a_minute_each(same, slowed, seconds, expected):
    assert bench.met(bench.summary(repetitions(same, slowed, seconds))) is expected
