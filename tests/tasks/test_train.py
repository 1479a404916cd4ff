import numpy as np
import pytest

from paddleship.config.sections.train import Train
from paddleship.model.training import History
from tasks.train import check_round_trip, check_score

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


def test_a_missed_score_advises_patience_if_training_stopped_early_and_epochs_if_not():
    epochs, settings = [{"validation_score": 0.7, "validation_loss": 1.0}] * 3, Train(patience=2, min_score=0.75)
    (early,) = check_score(History(epochs, best=0), "accuracy", settings)
    assert early.advice.startswith("no lower validation loss for 2 epochs ended the training: raise train.patience")
    (whole,) = check_score(History(epochs, best=1), "accuracy", settings)
    assert whole.advice.startswith("raise train.epochs")
