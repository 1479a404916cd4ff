"""What flow runs are called."""

import pytest

from flows import run_names
from paddleship.config import params
from tests.flows.helpers import git

COMMITTED = {"name": "reviews", "train.epochs": 8, "train.loss": None, "model.kwargs.width": 32, "sweep.trials": 4}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "reviews"),
        ({"train.epochs": 3}, "reviews: epochs=3"),
        ({"train.epochs": 3, "model.kwargs.width": 64}, "reviews: epochs=3, width=64"),
        ({"train.patience": 2}, "reviews: patience=2"),
        ({"train.a": 1, "train.b": 2, "train.c": 3, "train.d": 4}, "reviews: a=1, b=2, c=3, …"),
        ({"sweep.trials": 9}, "reviews"),
        ({"name": "linear", "train.epochs": 3}, "linear"),
    ],
)
def test_a_name_says_the_model_and_which_params_differ_from_the_committed_ones(changed, words):
    assert run_names.describe(COMMITTED | changed, COMMITTED) == words


def test_without_committed_params_a_name_says_the_model_only():
    assert run_names.describe(COMMITTED, {}) == "reviews"


def test_only_what_the_stages_get_counts_as_different(toy):
    committed = params.read(toy / "params.yaml")
    same = params.parse(params.merge(committed, {"train": {"weight_decay": params.Train().weight_decay}, "seed": float(committed["seed"])}))
    wider = params.parse(params.merge(committed, {"train": {"epochs": 77}}))
    assert [run_names.of_pipeline(values, toy) for values in (same, wider)] == [same.name, f"{same.name}: epochs=77"]


def test_a_commit_with_params_of_another_release_leaves_the_model(toy):
    values = params.load(toy / "params.yaml")
    (toy / "params.yaml").write_text("name: other\n")
    git(toy, "commit", "-qam", "params of another release")
    assert run_names.of_pipeline(values, toy) == values.name


def test_random_words_stay_at_the_end_of_a_name():
    assert run_names.with_words("calm-otter", "reviews: epochs=3") == "reviews: epochs=3 (calm-otter)"
    assert run_names.with_words("calm-otter", "r" * 300) == f"{'r' * 119}… (calm-otter)"


@pytest.mark.parametrize("chosen", ["wide", "wide model", "try-2", "reviews: epochs=3 (calm-otter)", "width=64 (red-fox 2)"])
def test_a_name_that_somebody_chose_is_kept(chosen):
    assert run_names.with_words(chosen, "reviews") == chosen
