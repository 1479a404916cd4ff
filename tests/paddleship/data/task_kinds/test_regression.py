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


@pytest.mark.parametrize("constant", [0.1, 0.3, 1.1, 5.7])
@pytest.mark.parametrize("rows", [10, 50, 500])
def test_a_target_that_does_not_vary_counts_for_nothing_although_its_mean_is_rounded(constant, rows):
    varied = np.linspace(0, 1, rows, dtype=np.float32)
    labels = np.stack([varied, np.full(rows, constant, np.float32)], 1)
    assert regression.r2(labels + np.float32(1e-3), labels) > 0.99
    assert regression.TASK_KIND.findings(labels + np.float32(1e-3), labels, []) == []


@pytest.mark.parametrize("size", [1e-25, 1e20])
def test_labels_whose_squares_do_not_fit_into_float32_have_a_score(size):
    labels = (np.linspace(-1, 1, 50) * size).astype(np.float32)
    assert regression.r2(labels * np.float32(0.9), labels) == pytest.approx(0.99, abs=1e-4)
