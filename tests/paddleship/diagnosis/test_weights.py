"""Weights are matched by content: what was changed is named, and what a converter may honestly do is not."""

import numpy as np
import pytest

from paddleship.diagnosis import weights


@pytest.fixture
def checkpoint():
    random = np.random.default_rng(0)
    shapes = {"conv.weight": (8, 3, 3, 3), "conv.bias": (8,), "norm.weight": (8,), "fc.weight": (8, 4), "fc.bias": (4,)}
    made = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    return made | {"norm.weight": np.ones(8, np.float32)}


def kinds(findings):
    return [finding.kind for finding in findings]


def changed(checkpoint, name, change):
    """The checkpoint's tensors with one of them changed."""
    return [change(array.copy()) if key == name else array for key, array in checkpoint.items()]


def test_the_same_weights_in_another_order_are_no_finding(checkpoint):
    held = list(reversed(checkpoint.values()))
    assert weights.compare(checkpoint, held, exact_layout=True) == []
    assert weights.compare(checkpoint, held, exact_layout=False) == []


@pytest.mark.parametrize("exact_layout", [True, False])
def test_one_value_off_by_a_thousandth_is_named_with_its_place(checkpoint, exact_layout):
    def off(array):
        array[2, 1] *= np.float32(1.001)
        return array

    (finding,) = weights.compare(checkpoint, changed(checkpoint, "fc.weight", off), exact_layout=exact_layout)
    assert (finding.kind, finding.layer) == ("weights-differ", "fc")
    assert "fc.weight differs from the checkpoint in 1 of 32 values, most at [2, 1]" in finding.message
    assert "0.001 of it" in finding.message


@pytest.mark.parametrize("exact_layout", [True, False])
def test_swapped_channels_are_told_from_other_values(checkpoint, exact_layout):
    held = changed(checkpoint, "conv.weight", lambda array: array[[0, 1, 5, 3, 4, 2, 6, 7]])
    (finding,) = weights.compare(checkpoint, held, exact_layout=exact_layout)
    assert "channels in another order along axis 0 (2, 5)" in finding.message


@pytest.mark.parametrize("exact_layout", [True, False])
def test_another_checkpoint_is_one_finding(checkpoint, exact_layout):
    other = [np.random.default_rng(1).normal(size=array.shape).astype(np.float32) for array in checkpoint.values()]
    (finding,) = weights.compare(checkpoint, other, exact_layout=exact_layout)
    assert finding.kind == "weights-differ"
    assert "made from another one" in finding.message


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_rounded_through_a_smaller_dtype_are_a_matter_of_dtype(checkpoint, dtype):
    def through(array):
        if dtype == "float16":
            return array.astype(np.float16).astype(np.float32)
        bits = array.view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)

    (finding,) = weights.compare(checkpoint, [through(array) for array in checkpoint.values()], exact_layout=True)
    assert finding.kind == "dtype-differs"
    assert dtype in finding.message


def test_a_transposed_or_folded_weight_of_an_onnx_program_is_no_finding(checkpoint):
    scale = np.linspace(0.5, 1.5, 8, dtype=np.float32).reshape(8, 1, 1, 1)
    held = [checkpoint["conv.weight"] * scale, checkpoint["fc.weight"].T.copy(), checkpoint["fc.bias"]]
    assert weights.compare(checkpoint, held, exact_layout=False) == []


def test_weights_that_forward_does_not_use_are_no_finding(checkpoint):
    held = [array for name, array in checkpoint.items() if name != "norm.weight"]
    assert weights.compare(checkpoint, held, exact_layout=True) == []


def test_nan_in_a_held_weight_is_said(checkpoint):
    def spoil(array):
        array[0] = np.nan
        return array

    (finding,) = weights.compare(checkpoint, changed(checkpoint, "fc.bias", spoil), exact_layout=True)
    assert "fc.bias holds NaN or infinity" in finding.message


def test_one_of_two_equal_weights_that_changed_is_found(checkpoint):
    twins = {**checkpoint, "norm.other": np.ones(8, np.float32)}
    (finding,) = weights.compare(twins, changed(twins, "norm.other", lambda array: array * np.float32(1.01)), exact_layout=True)
    assert kinds([finding]) == ["weights-differ"]
