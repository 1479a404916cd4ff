"""Every weight is compared in its place: what differs is named with what is the matter, and what a converter may do is no difference."""

import numpy as np
import pytest

from paddleship.weights import derived_weights, weight_comparison
from paddleship.weights.candidate_tensors import Tensor, dequantised
from paddleship.weights.weight_comparison import CheckpointTensors, compare, merge

SHAPES = {"embed.weight": (30, 4), "one.weight": (8, 8), "two.weight": (8, 8), "two.bias": (8,), "conv.weight": (8, 2, 3, 3)}
NAMES = {name: f"parameter_{place}" for place, name in enumerate(SHAPES)}


@pytest.fixture
def checkpoint():
    random = np.random.default_rng(0)
    return {name: random.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def held(weights):
    """The tensors of a file that holds these weights."""
    return {NAMES[name]: Tensor(array.copy()) for name, array in weights.items()}


def weigh(checkpoint, tensors, **how):
    """Compare a file that was converted from an honest program."""
    return compare(CheckpointTensors(checkpoint, NAMES, held(checkpoint)), tensors, **how)


def changed(checkpoint, name, change):
    array = checkpoint[name].copy()
    return held(checkpoint) | {NAMES[name]: Tensor(change(array))}


def said(compared_weights):
    return [(finding.kind, finding.message) for finding in compared_weights.findings]


def test_a_file_that_holds_every_weight_is_exact(checkpoint):
    compared_weights = weigh(checkpoint, held(checkpoint))
    assert compared_weights
    assert (compared_weights.compared_share, compared_weights.exact_share, compared_weights.not_compared) == (1, 1, ())


def test_the_weights_of_two_equal_layers_that_were_exchanged_are_both_named(checkpoint):
    tensors = held(checkpoint)
    tensors["parameter_1"], tensors["parameter_2"] = tensors["parameter_2"], tensors["parameter_1"]
    assert said(weigh(checkpoint, tensors)) == [
        ("weights-differ", "one.weight holds the numbers of two.weight: the two were exchanged or one was repeated"),
        ("weights-differ", "two.weight holds the numbers of one.weight: the two were exchanged or one was repeated"),
    ]


def test_rows_of_rare_ids_that_moved_by_one_are_named(checkpoint):
    def shift(array):
        array[25:29] = array[26:30]
        return array

    ((kind, message),) = said(weigh(checkpoint, changed(checkpoint, "embed.weight", shift)))
    assert kind == "weights-differ"
    assert message.startswith("embed.weight differs from the checkpoint in 16 of 120 values, most at [2")


def test_a_channel_of_zeros_is_named(checkpoint):
    def silence(array):
        array[5] = 0
        return array

    ((_, message),) = said(weigh(checkpoint, changed(checkpoint, "conv.weight", silence)))
    assert message == "conv.weight is zero along axis 0 at 5, and the checkpoint is not"


def test_channels_in_another_order_are_named(checkpoint):
    tensors = changed(checkpoint, "conv.weight", lambda array: array[[0, 1, 5, 3, 4, 2, 6, 7]])
    assert "slices in another order along axis 0 (2, 5)" in said(weigh(checkpoint, tensors))[0][1]


def test_one_value_off_by_a_thousandth_is_named_with_its_place(checkpoint):
    def off(array):
        array[2, 1] *= np.float32(1.001)
        return array

    compared_weights = weigh(checkpoint, changed(checkpoint, "one.weight", off))
    assert "one.weight differs from the checkpoint in 1 of 64 values, most at [2, 1]" in compared_weights.findings[0].message
    assert compared_weights.findings[0].layer == "one"


def test_nan_is_said(checkpoint):
    ((_, message),) = said(weigh(checkpoint, changed(checkpoint, "two.bias", lambda array: array * np.nan)))
    assert message == "two.bias holds NaN or infinity in the candidate"


def test_another_checkpoint_is_one_finding(checkpoint):
    other = {name: array + np.float32(0.1) for name, array in checkpoint.items()}
    ((kind, message),) = said(weigh(checkpoint, held(other)))
    assert kind == "weights-differ"
    assert "5 weights are not the checkpoint's (embed.weight, one.weight, two.weight …): the candidate was made from another one" in message


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_rounded_through_a_smaller_dtype_are_a_matter_of_dtype(checkpoint, dtype):
    def through(array):
        if dtype == "float16":
            return array.astype(np.float16).astype(np.float32)
        bits = array.view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)

    ((kind, message),) = said(weigh(checkpoint, held({name: through(array) for name, array in checkpoint.items()})))
    assert kind == "dtype-differs"
    assert f"5 weights were rounded: embed.weight was rounded through {dtype}" in message


def test_one_matrix_that_was_rounded_among_others_is_a_difference(checkpoint):
    tensors = changed(checkpoint, "one.weight", lambda array: array.astype(np.float16).astype(np.float32))
    assert said(weigh(checkpoint, tensors))[0][0] == "dtype-differs"


def test_weights_that_the_program_does_not_use_are_named_and_no_difference(checkpoint):
    used = {name: array for name, array in checkpoint.items() if name != "two.bias"}
    compared_weights = compare(CheckpointTensors(checkpoint, NAMES, held(used)), held(used))
    assert compared_weights
    assert compared_weights.left() == {weight_comparison.UNUSED: 8 / 400}
    assert compare(CheckpointTensors(checkpoint, NAMES, None), held(used)).left() == {weight_comparison.UNUSED: 8 / 400}


def test_a_weight_that_a_converter_folded_away_is_named_with_its_share(checkpoint):
    tensors = held(checkpoint)
    tensors["fused"] = Tensor(tensors.pop("parameter_4").values * np.linspace(0.5, 1.5, 8, dtype=np.float32).reshape(8, 1, 1, 1))
    compared_weights = weigh(checkpoint, tensors)
    assert compared_weights
    assert compared_weights.left() == {weight_comparison.MOVED: 144 / 400}
    assert compared_weights.compared_share == (400 - 144) / 400


@pytest.mark.parametrize("form", [lambda array: array, lambda array: array.T.copy(), lambda array: array.reshape(2, 4, 8)])
def test_a_weight_under_another_name_is_found_by_its_numbers_and_not_called_proven_in_place(checkpoint, form):
    tensors = held(checkpoint)
    tensors["constant_7"] = Tensor(form(tensors.pop("parameter_1").values))
    compared_weights = weigh(checkpoint, tensors)
    assert (bool(compared_weights), compared_weights.compared_share, compared_weights.exact_share) == (True, 1, (400 - 64) / 400)
    assert compared_weights.left() == {weight_comparison.UNPLACED: 64 / 400}


def test_a_weight_that_two_layers_share_is_compared_once_for_both(checkpoint):
    tied = checkpoint | {"tied.weight": checkpoint["one.weight"]}
    original = CheckpointTensors(tied, {**NAMES, "tied.weight": NAMES["one.weight"]}, held(checkpoint))
    compared_weights = compare(original, held(checkpoint))
    assert (compared_weights.total, compared_weights.exact_share) == (400, 1)


def quantised(array, axis=1):
    others = tuple(place for place in range(array.ndim) if place != axis)
    scale = np.abs(array).max(axis=others) / 127
    shape = [-1 if place == axis else 1 for place in range(array.ndim)]
    return np.round(array / scale.reshape(shape)).astype(np.int8), scale


def test_quantised_weights_are_right_within_half_a_step(checkpoint):
    codes, scale = quantised(checkpoint["one.weight"])
    zero = np.zeros(8, np.int8)
    right = held(checkpoint) | {"parameter_1": dequantised(codes, scale, zero, axis=1)}
    compared_weights = weigh(checkpoint, right)
    assert (bool(compared_weights), compared_weights.compared_share, compared_weights.exact_share) == (True, 1, (400 - 64) / 400)
    codes[3, 2] += 1
    wrong = held(checkpoint) | {"parameter_1": dequantised(codes, scale, zero, axis=1)}
    assert "one.weight differs" in said(weigh(checkpoint, wrong))[0][1]


def test_flags_that_a_converter_keeps_as_whole_numbers_are_the_same():
    flags = {"flags": np.array([True, False, True])}
    original = CheckpointTensors(flags, {"flags": "flags"}, {"flags": Tensor(flags["flags"])})
    assert compare(original, {"flags": Tensor(np.array([1, 0, 1], np.int32))}).exact_share == 1
    assert not compare(original, {"flags": Tensor(np.array([1, 0, 0], np.int32))})
    assert not compare(original, {"flags": Tensor(np.array([1, 0, 1], np.float32))})


def test_a_scale_along_the_wrong_axis_is_a_difference(checkpoint):
    codes, scale = quantised(checkpoint["one.weight"])
    tensors = held(checkpoint) | {"parameter_1": dequantised(codes, scale, np.zeros(8, np.int8), axis=0)}
    assert not weigh(checkpoint, tensors)


def test_pruned_weights_keep_what_they_keep(checkpoint):
    def prune(array):
        flat = array.reshape(-1, 4)
        flat[np.arange(len(flat))[:, None], np.argsort(np.abs(flat), 1)[:, :2]] = 0
        return array

    assert weigh(checkpoint, changed(checkpoint, "one.weight", prune), pruned=True)
    assert not weigh(checkpoint, changed(checkpoint, "one.weight", prune))
    assert not weigh(checkpoint, changed(checkpoint, "one.weight", lambda array: prune(array) * np.float32(1.01)), pruned=True)

    def silence(array):
        prune(array)[3] = 0
        return array

    assert not weigh(checkpoint, changed(checkpoint, "one.weight", silence), pruned=True)


def test_a_bias_that_its_quantiser_corrects_is_named_and_a_matrix_is_still_compared(checkpoint):
    tensors = changed(checkpoint, "two.bias", lambda array: array + np.float32(0.01))
    compared_weights = weigh(checkpoint, tensors, corrects_biases=True)
    assert compared_weights
    assert compared_weights.left() == {weight_comparison.CORRECTED: 8 / 400}
    assert not weigh(checkpoint, tensors)


def test_a_constant_that_is_no_weight_is_held_to_the_exported_program(checkpoint):
    names = {**NAMES, "table": "constant_0"}
    program = held(checkpoint) | {"constant_0": Tensor(np.arange(4, dtype=np.float32))}
    original = CheckpointTensors(checkpoint, names, program)
    assert compare(original, program).extra == 4
    ((_, message),) = said(compare(original, program | {"constant_0": Tensor(np.zeros(4, np.float32))}))
    assert message.startswith("table ")
    assert "exported program" in message


def test_what_weight_norm_made_of_weights_is_compared_with_them():
    random = np.random.default_rng(0)
    size, direction = random.normal(size=5).astype(np.float32), random.normal(size=(5, 3)).astype(np.float32)
    checkpoint = {"part.weight_g": size, "part.weight_v": direction}
    made = size[:, None] * direction / np.sqrt((direction**2).sum(1, keepdims=True))
    original = CheckpointTensors(checkpoint, {"part.weight_g": "g", "part.weight_v": "v", "part.weight": "derived"}, None)
    compared_weights = compare(original, {"derived": Tensor(made)})
    assert (bool(compared_weights), compared_weights.compared_share, compared_weights.exact_share) == (True, 1, 0)
    made[2] *= np.float32(1.01)
    assert "is not what part.weight was derived from" in said(compare(original, {"derived": Tensor(made)}))[0][1]


def test_what_spectral_norm_made_of_weights_is_compared_with_them():
    random = np.random.default_rng(0)
    weight, left, right = (random.normal(size=shape).astype(np.float32) for shape in ((5, 3), (5,), (3,)))
    made = Tensor(weight / (left @ weight @ right))
    assert derived_weights.matches((weight, left, right), made)
    assert not derived_weights.matches((weight, left, right), Tensor(made.values * np.float32(1.01)))


def test_a_candidate_of_several_programs_is_as_good_as_the_worst(checkpoint):
    good, bad = weigh(checkpoint, held(checkpoint)), weigh(checkpoint, changed(checkpoint, "two.bias", lambda array: array + 1))
    assert merge([good, good])
    assert len(merge([good, bad, bad]).findings) == 1
