"""Values that are drawn for a search stay within what is declared, and are of many kinds."""

import numpy as np
import pytest

from paddleship.proof.cases.value_sampling import redraw


@pytest.mark.parametrize(
    ("dtype", "limits"), [("float32", (-2.0, 0.5)), ("int64", (3, 9)), ("float32", (0.0, None)), ("bool", (None, None))]
)
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_drawn_values_stay_within_what_is_declared(dtype, limits, axis):
    random, drawn = np.random.default_rng(0), []
    for size in np.geomspace(0.01, 1000, 50):
        drawn.append(redraw(np.ones((4, 3), dtype), limits, size, random, axis=axis))
        assert drawn[-1].dtype == dtype
        assert drawn[-1].shape == (4, 3)
    low, high = limits
    assert low is None or min(array.min() for array in drawn) >= low
    assert high is None or max(array.max() for array in drawn) <= high
    assert len({array.tobytes() for array in drawn}) > 10


def test_whole_numbers_without_a_range_stay_as_they_are():
    array = np.arange(6).reshape(2, 3)
    assert redraw(array, (0, None), 1.0, np.random.default_rng(0)) is array


def test_some_draws_hold_a_patch_on_a_level_ground():
    random = np.random.default_rng(0)
    drawn = [redraw(np.zeros((2, 1, 16, 16), "float32"), (None, None), 10.0, random, axis=0) for _ in range(50)]
    assert any(len(np.unique(array[0])) == 2 for array in drawn)


def test_an_input_without_rows_or_elements_is_drawn_too():
    random = np.random.default_rng(0)
    assert redraw(np.zeros((0, 3), "float32"), (None, None), 1.0, random, axis=0).shape == (0, 3)
    assert redraw(np.zeros((), "float32"), (0.0, 1.0), 1.0, random).shape == ()
