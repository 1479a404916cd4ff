import numpy as np
import pytest

from tasks.train import check_round_trip

RIGHT = {"score": np.array([[1.0, -2.0]], np.float32)}


@pytest.mark.parametrize(
    ("restored", "passed"),
    [
        ({"score": np.array([[1.0, -2.0]], np.float32)}, True),
        ({"score": np.array([[1.0, np.nan]], np.float32)}, False),
        ({"score": np.array([[1.0, -2.001]], np.float32)}, False),
        ({"score": np.array([1.0, -2.0], np.float32)}, False),
        ({}, False),
    ],
)
def test_a_checkpoint_that_answers_differently_is_refused(restored, passed):
    check = check_round_trip(RIGHT, restored)
    assert check.name == "round_trip_max_rel_diff"
    assert bool(check.passed) == passed
