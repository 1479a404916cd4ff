"""The first outputs for several batches as one array, also where rows of different sizes get outputs of different sizes."""

import numpy as np

from paddleship.data.task_kinds import registry


def test_outputs_of_different_sizes_are_joined_with_zeros_behind_the_smaller_ones():
    small, large = np.ones((2, 1, 2, 3), np.float32), np.full((1, 1, 4, 2), 2, np.float32)
    joined = registry.get("regression").joined([small, large])
    assert joined.shape == (3, 1, 4, 3)
    assert joined.dtype == np.float32
    assert np.array_equal(joined[:2, :, :2], small)
    assert np.array_equal(joined[2:, :, :, :2], large)
    assert joined.sum() == small.sum() + large.sum()
