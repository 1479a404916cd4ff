"""What pipeline runs are called."""

import pytest

from flows import run_names

COMMITTED = {"name": "reviews", "train": {"epochs": 8, "loss": None}, "model": {"kwargs": {"width": 32}}, "sweep": {"trials": 4}}


def named(current="calm-otter", committed=COMMITTED, **changed):
    return run_names.describe(current, COMMITTED | changed, committed)


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({}, "reviews (calm-otter)"),
        ({"train": {"epochs": 3, "loss": None}}, "reviews: epochs=3 (calm-otter)"),
        ({"train": {"epochs": 3}, "model": {"kwargs": {"width": 64}}}, "reviews: epochs=3, width=64 (calm-otter)"),
        ({"train": {"epochs": 8, "patience": 2}}, "reviews: patience=2 (calm-otter)"),
        ({"train": {"a": 1, "b": 2, "c": 3, "d": 4}}, "reviews: a=1, b=2, c=3, … (calm-otter)"),
        ({"sweep": {"trials": 9}}, "reviews (calm-otter)"),
        ({"name": "linear", "train": {"epochs": 3}}, "linear (calm-otter)"),
    ],
)
def test_a_name_says_the_model_and_which_params_differ_from_the_committed_ones(changed, name):
    assert named(**changed) == name


def test_without_committed_params_a_name_says_the_model_only():
    assert named(committed={}) == "reviews (calm-otter)"


@pytest.mark.parametrize("chosen", ["wide", "wide model", "try-2", "reviews: epochs=3 (calm-otter)", "width=64 (red-fox 2)"])
def test_a_name_that_somebody_chose_is_kept(chosen):
    assert named(chosen) == chosen
