"""Answers kept with a checkpoint whose rows have no labels."""

import numpy as np
import pytest

from paddleship.errors import BadInput
from paddleship.model import recorded_answers

ANSWERS = np.random.default_rng(0).normal(size=(100, 3)).astype("float32")


def test_the_first_rows_of_each_part_are_kept(tmp_path):
    recorded_answers.write({"validation": ANSWERS, "test": ANSWERS[:2]}, tmp_path)
    kept = recorded_answers.read(tmp_path)
    assert {split: array.shape for split, array in kept.items()} == {"validation": (64, 3), "test": (2, 3)}
    assert np.array_equal(kept["validation"], ANSWERS[:64])


@pytest.mark.parametrize(
    ("now", "count"),
    [
        (ANSWERS + 1e-6, 0),
        (np.where(np.arange(100)[:, None] == 3, ANSWERS * 1.01, ANSWERS), 1),
        (np.where(np.arange(100)[:, None] == 5, np.nan, ANSWERS), 1),
        (ANSWERS[:, :2], 64),
        (ANSWERS[:10], 64),
    ],
)
def test_rows_that_another_model_answers_are_counted(now, count):
    assert recorded_answers.differing(ANSWERS[:64], now) == count


def test_a_checkpoint_without_them_says_to_train_again(tmp_path):
    with pytest.raises(BadInput, match=r"answers.npz cannot be read .*run `paddleship run --again train`"):
        recorded_answers.read(tmp_path)
