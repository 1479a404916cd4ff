"""Weights of a file and those of a model, by name."""

import numpy as np
import pytest

from paddleship.errors import ModelError
from paddleship.model.checkpoint_import.matching import match

OWN = {"fc.weight": np.zeros((2, 3), np.float32), "fc.bias": np.zeros(3, np.float32), "steps": np.zeros(1, np.int64)}
FILE = {"fc.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "fc.bias": np.ones(3, np.float32), "steps": np.ones(1, np.int64)}


def prefixed(arrays, prefix):
    return {f"{prefix}{name}": array for name, array in arrays.items()}


def matched(tree, own=OWN, key=None):
    return match(tree, own, path="a.pdparams", key=key)


def refusal(tree, own=OWN, key=None):
    with pytest.raises(ModelError) as refused:
        matched(tree, own, key)
    assert len(str(refused.value).splitlines()) == 1
    return str(refused.value)


@pytest.mark.parametrize(
    ("tree", "own", "notes"),
    [
        (FILE, OWN, []),
        ({**FILE, "StructuredToParameterName@@": {"fc.weight": "linear_0.w_0"}}, OWN, []),
        (prefixed(FILE, "backbone."), OWN, ["prefix 'backbone.' removed"]),
        (prefixed(FILE, "_layers.net."), OWN, ["prefix '_layers.net.' removed"]),
        (FILE, prefixed(OWN, "encoder."), ["prefix 'encoder.' added"]),
        ({"model": FILE, "optimizer": {"fc.weight_moment1_0": FILE["fc.weight"]}, "epoch": 3}, OWN, ["key 'model'"]),
        ({"state": {"ema": prefixed(FILE, "module.")}}, OWN, ["key 'state.ema'", "prefix 'module.' removed"]),
    ],
    ids=["as they are", "with the names of parameters", "backbone.", "two prefixes", "the model's prefix", "with an optimizer", "deep"],
)
def test_names_that_agree_apart_from_a_key_or_prefix_are_matched_and_that_is_noted(tree, own, notes):
    found = matched(tree, own)
    assert found.notes == notes
    assert found.weights.keys() == own.keys()
    for name, array in FILE.items():
        (mine,) = (mine for mine in own if mine.endswith(name))
        assert np.array_equal(found.weights[mine], array)


def test_of_several_sets_that_fit_one_must_be_named():
    tree = {"model": FILE, "ema": prefixed({name: array + 1 for name, array in FILE.items()}, "module.")}
    assert "holds several sets of weights for this model ('model', 'ema'): name one with train.source.key" in refusal(tree)
    assert matched(tree, key="ema").weights["steps"] == 2
    assert "holds no weights at the key 'emma' (keys that hold some: 'model', 'ema')" in refusal(tree, key="emma")


def test_names_that_are_missing_or_unexpected_are_listed_with_the_nearest():
    tree = {"fc.weigth": FILE["fc.weight"], "fc.bias": FILE["fc.bias"], "steps": FILE["steps"]}
    message = refusal(tree)
    assert "1 of 3 weights are missing in it ('fc.weight, nearest fc.weigth')" in message
    assert "1 of its 3 arrays are not in the model ('fc.weigth')" in message
    assert "and 7 more" in refusal({**FILE, **{f"head.{number}": FILE["steps"] for number in range(10)}})


def test_pretrained_weights_without_a_head_are_told_by_what_is_missing_beside_the_prefix():
    own = {**prefixed(OWN, "backbone."), "head.weight": OWN["fc.weight"]}
    message = refusal(FILE, own)
    assert "the prefix 'backbone.' is added; 1 of 4 weights are missing in it ('head.weight'): set" in message
    message = refusal({**prefixed(FILE, "module."), "module.head.weight": FILE["fc.weight"]})
    assert "the prefix 'module.' is removed; 1 of its 4 arrays are not in the model ('module.head.weight'): set" in message


def test_weights_of_another_shape_are_named_with_both_shapes():
    message = refusal({**FILE, "fc.weight": np.zeros((2, 5), np.float32)})
    assert "'fc.weight is float32[2,5], and float32[2,3] in the model'" in message


@pytest.mark.parametrize(
    ("name", "array", "value", "note"),
    [
        ("fc.bias", np.array([0.5, 1.5, -2], np.float16), [0.5, 1.5, -2], "cast from float16 to float32"),
        ("fc.bias", np.array([0.1, 1.5, -2], np.float64), np.array([0.1, 1.5, -2], np.float32), "cast from float64 to float32"),
        ("fc.bias", np.array([0x3F00, 0x3FC0, 0xC000], np.uint16), [0.5, 1.5, -2], "cast from bfloat16 to float32"),
        ("steps", np.array([7], np.int32), [7], "cast from int32 to int64"),
    ],
    ids=["float16", "float64", "bfloat16", "int32"],
)
def test_other_precisions_are_cast_and_noted(name, array, value, note):
    found = matched({**FILE, name: array})
    assert found.notes == [note]
    assert np.array_equal(found.weights[name], value)
    assert found.weights[name].dtype == OWN[name].dtype


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("fc.bias", np.ones(3, np.int8)),
        ("fc.bias", np.ones(3, bool)),
        ("steps", np.array([0.5])),
        ("steps", np.array([2**63], np.uint64)),
        ("fc.bias", np.full(3, 1e300)),
    ],
    ids=["quantised", "bool", "a fraction", "too large", "too large for float32"],
)
def test_a_cast_that_would_change_values_is_refused(name, array):
    assert f"{name} is {array.dtype}" in refusal({**FILE, name: array})


def test_a_prefix_must_be_that_of_all_names():
    own = {"b.weight": OWN["fc.bias"], "a.weight": OWN["fc.bias"]}
    assert "are missing in it" in refusal({"weight": FILE["fc.bias"], "b.weight": FILE["fc.bias"]}, own)


def test_two_sets_under_one_key_are_refused():
    assert "holds two sets of weights under one key" in refusal({"a": {"b": FILE}, "a.b": FILE})


def test_long_names_and_names_of_several_lines_stay_one_line():
    message = refusal({**FILE, "a\nb": FILE["steps"], "x" * 10_000: FILE["steps"]})
    assert len(message) < 1000
