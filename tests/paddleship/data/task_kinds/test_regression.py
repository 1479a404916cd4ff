"""The score of a regression."""

import math

import numpy as np
import pytest

from paddleship.data.task_kinds import regression


def test_r2_is_that_of_each_target_so_that_a_worthless_one_shows_whatever_its_unit():
    random = np.random.default_rng(3)
    labels = random.normal(size=(400, 2)) * [50, 0.5]
    answers = np.stack([labels[:, 0], np.full(400, labels[:, 1].mean())], axis=1)
    assert regression.r2(labels, labels) == 1
    assert regression.r2(answers, labels) == pytest.approx(0.5)
    assert regression.r2(answers[:, :1], labels[:, 0]) == 1
    assert math.isnan(regression.r2(answers, np.ones((400, 2))))
    still = np.concatenate([labels[:, :1], np.ones((400, 1))], axis=1)
    assert regression.r2(still, still) == 1, "a target that does not vary has no R²"
