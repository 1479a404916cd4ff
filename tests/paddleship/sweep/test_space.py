"""The search space: refused before anything starts, or laid over the params as a user means it."""

import pytest
from pydantic import ValidationError

from paddleship.config import loading
from paddleship.config.sections.sweep import Sweep
from paddleship.errors import ParamsError
from paddleship.sweep import space


def sweeping(reviews_params, **sweep):
    return reviews_params({"sweep": sweep})


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("train.epoch", 1, "the params have no 'epoch' there (did you mean 'epochs'?)"),
        ("trian.epochs", 1, "the params have no 'trian' there (did you mean 'train'?)"),
        ("train.epochs.x", 1, "the params have no 'x' there (there is nothing below it)"),
        ("model.kwargs.witdh", 8, "the params have no 'witdh' there (did you mean 'width'?): add it there with its usual value"),
        ("train.epochs", 0, 'sweep.space, {"train.epochs": 0}: train.epochs: must be greater than or equal to 1 (got 0)'),
        ("optimize.threads", "many", "optimize.threads: must be a whole number"),
        ("name", "other", "sweep.space names 'name', which all variants share"),
        ("sweep.trials", 3, "sweep.space names 'sweep.trials', which all variants share"),
    ],
)
def test_an_unknown_param_or_a_value_that_it_cannot_have_is_refused(reviews_params, path, value, words):
    with pytest.raises(ParamsError) as refused:
        space.require(sweeping(reviews_params, space={path: [value]}))
    assert words in str(refused.value)


def test_the_ends_of_a_range_are_checked(reviews_params):
    with pytest.raises(ParamsError, match=r"train.learning_rate: must be greater than 0"):
        space.require(sweeping(reviews_params, method="random", space={"train.learning_rate": {"low": -1, "high": 1}}))


def test_values_that_fit_alone_and_not_together_are_refused_for_a_grid(reviews_params):
    with pytest.raises(ParamsError, match=r"must leave rows to train on"):
        space.require(sweeping(reviews_params, space={"data.validation": [0.1, 0.6], "data.test": [0.1, 0.6]}))


def test_an_empty_space_is_refused_with_the_next_step(reviews_params):
    with pytest.raises(ParamsError, match=r"sweep.space is empty: name params"):
        space.require(sweeping(reviews_params))


def test_what_fits_is_not_refused(reviews_params):
    given = {"train.epochs": [1, 2], "optimize.candidates": [["paddle"], None], "model.kwargs.width": [8, 16], "seed": [1, 2]}
    space.require(sweeping(reviews_params, space=given))


@pytest.mark.parametrize(
    ("sweep", "words"),
    [
        ({"space": {"train.epochs": {"low": 1, "high": 4}}}, "space of a grid must hold lists"),
        ({"space": {"train.epochs": [2, 2]}}, "must list every value of train.epochs once"),
        ({"space": {"train.epochs": []}}, "at least 1 item"),
        ({"space": {"train.epochs": {"lo": 1, "high": 4}}, "method": "random"}, "lo"),
        ({"space": {"train.epochs": {"low": 4, "high": 4}}, "method": "random"}, "low must be below high"),
        ({"space": {"train.epochs": {"low": 0, "high": 4, "log": True}}, "method": "random"}, "above 0 with log"),
    ],
)
def test_a_space_that_says_nothing_sensible_is_refused(sweep, words):
    with pytest.raises(ValidationError, match=words):
        Sweep(**sweep)


def test_an_unknown_key_of_a_range_is_explained(reviews_params):
    with pytest.raises(ParamsError, match=r"did you mean 'low'\?"):
        sweeping(reviews_params, space={"train.epochs": {"lo": 1, "high": 4}}, method="random")


def test_a_variant_keeps_what_it_does_not_name(reviews_params):
    values = reviews_params()
    made = space.overlay(values, {"model.kwargs.width": 8, "model.kwargs.dropout": 0.1, "train.epochs": 3})
    assert made == {"model": {"kwargs": {**values.model.kwargs, "width": 8, "dropout": 0.1}}, "train": {"epochs": 3}}
    assert values.model.kwargs["width"] == 16, "the params themselves are not changed"


def test_a_param_of_one_input_is_varied_and_its_others_stay(reviews_params):
    ids = {"kind": "characters", "column": "text", "multiple_of": 8}
    inputs = {"preprocess": {"inputs": {"ids": ids, "price": {"kind": "numbers"}}}}
    path = "preprocess.inputs.ids.max_length"
    values = reviews_params(inputs | {"sweep": {"space": {path: [16, 64]}}})
    space.require(values)
    varied = reviews_params(loading.merge(inputs, space.overlay(values, {path: 64}))).preprocess.entries
    assert (varied["ids"]["max_length"], varied["ids"]["multiple_of"], varied["price"]["kind"]) == (64, 8, "numbers")
    with pytest.raises(ParamsError, match=r"preprocess.inputs.ids.max_length: must be greater than or equal to 1 \(got 0\)"):
        space.require(reviews_params(inputs | {"sweep": {"space": {path: [0]}}}))


def test_a_grid_has_all_combinations_and_a_fraction_has_no_number_of_values():
    lists = Sweep(space={"a": [1, 2], "b": ["x", "y", "z"]})
    assert len(list(space.combinations(lists))) == space.size(lists) == 6
    assert space.size(Sweep(space={"a": {"low": 1, "high": 3}}, method="random")) == 3
    assert space.size(Sweep(space={"a": {"low": 0.5, "high": 3}}, method="random")) is None


def test_a_label_says_what_differs_with_short_names_unless_they_are_equal():
    assert space.label({"train.epochs": 4, "train.learning_rate": 0.001}) == "epochs=4, learning_rate=0.001"
    assert space.label({"verify.threads": 1, "optimize.threads": 2}) == "verify.threads=1, optimize.threads=2"
    assert space.label({"optimize.candidates": ["paddle"]}) == 'candidates=["paddle"]'
    assert len(space.label({"a": ["x" * 100]})) < 50
