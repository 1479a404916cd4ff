import re

import numpy as np
import pytest

from paddleship.errors import RequestError
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.preprocess import characters as characters_kind
from paddleship.shipped.computing.spec import Dimension, TensorSpec

IDS = TensorSpec("ids", "int64", ("batch", "length"))


CONFIG = {"kind": "characters", "column": "text", "input": "ids", "vocabulary": ["好", "a"], "max_length": 5, "multiple_of": 4}


def characters(**changes):
    return preprocess.build({**CONFIG, "unicode_form": "NFKC", **changes}, [IDS])


def test_characters_become_ids_and_rows_are_padded_to_a_multiple():
    chosen = characters()
    batch = chosen.collate(chosen.encode({"text": ["好a?", "好"]}))
    assert batch["ids"].tolist() == [[2, 3, 1, 0], [2, 0, 0, 0]]


@pytest.mark.parametrize("raw", ["ａ好", "  a好\n", "a好\u3000"], ids=ascii)
def test_text_as_a_client_sends_it_is_the_text_that_the_model_was_trained_on(raw):
    chosen = characters()
    assert chosen.encode({"text": [raw]})[0]["ids"].tolist() == chosen.encode({"text": ["a好"]})[0]["ids"].tolist() == [3, 2]


def test_text_is_cut_after_it_is_normalised():
    assert characters(vocabulary=["m"], max_length=2).encode({"text": ["㎜㎜"]})[0]["ids"].tolist() == [2, 2]


def test_text_stays_as_it_comes_where_no_form_is_asked_for():
    assert characters(unicode_form=None).encode({"text": ["ａ 好"]})[0]["ids"].tolist() == [1, 1, 2]


def test_long_texts_are_cut():
    chosen = characters()
    assert chosen.collate(chosen.encode({"text": ["a" * 99]}))["ids"].tolist() == [[3, 3, 3, 3, 3, 0, 0, 0]]


@pytest.mark.parametrize("character", ["b", "奾", "\U0010ffff", "\ud800", "\0"], ids=ascii)
def test_a_character_outside_the_vocabulary_is_unknown_whatever_its_code_point(character):
    assert characters(unicode_form=None).encode({"text": [f"a{character}好"]})[0]["ids"].tolist() == [3, 1, 2]
    assert characters(vocabulary=[], unicode_form=None).encode({"text": [character]})[0]["ids"].tolist() == [1]


def test_only_the_rows_that_are_as_long_as_rows_get_may_be_cut():
    chosen, texts = characters(), {"text": ["a", "a" * 5, "a" * 6]}
    examples = chosen.encode(texts)
    assert [chosen.encoders[0].is_full(one["ids"]) for one in examples] == [False, True, True]
    assert chosen.cuts(texts, examples) == chosen.cuts(texts) == [{"input": "text", "row": 2, "length": 6, "kept": 5}]


def test_a_row_encodes_the_same_alone_and_in_company():
    chosen = characters()
    alone = chosen.encode({"text": ["好"]})[0]["ids"]
    assert np.array_equal(alone, chosen.encode({"text": ["aaaa", "好"]})[1]["ids"])


@pytest.mark.parametrize(("text", "words"), [(3, "must be text"), ("", "is empty"), (" \n", "is empty"), (None, "must be text")])
def test_what_is_no_text_is_refused(text, words):
    with pytest.raises(RequestError, match=words):
        characters().encode({"text": [text]})


def test_the_vocabulary_keeps_the_most_frequent_and_breaks_ties_by_code_point():
    assert characters_kind.vocabulary(["ba", "b", "ｃ", "d"], size=5, unicode_form="NFKC") == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1.0, 2.0], "shape"),
        ([[1.0]], "shape"),
        (["x", "y", "z"], "cannot be read"),
        ([1.0, float("nan"), 0.0], "finite numbers"),
        ([1.0, 2.0, 99.0], "outside"),
    ],
)
def test_a_tensor_that_does_not_fit_is_refused(value, words):
    spec = TensorSpec("x", "float32", ("batch", 3), low=-10, high=10)
    with pytest.raises(RequestError, match=words):
        preprocess.build({"kind": "tensors"}, [spec]).encode({"x": [value]})


@pytest.mark.parametrize(
    ("dtype", "value"), [("int8", 300), ("uint8", -1), ("int64", 2**63), ("int64", 1e30), ("int64", 0.5), ("bool", 5), ("float32", 1e300)]
)
def test_a_number_that_its_dtype_cannot_hold_is_refused_and_never_wrapped(dtype, value):
    spec = TensorSpec("x", dtype, ("batch",))
    with pytest.raises(RequestError, match=r"can hold|infinity"):
        preprocess.build({"kind": "tensors"}, [spec]).encode({"x": [value]})


def test_an_out_of_range_id_never_reaches_the_runtime():
    spec = TensorSpec("ids", "int64", ("batch", "length"), low=0, high=9)
    with pytest.raises(RequestError, match=r"outside 0 … 9 \(got 0 … 10\)"):
        preprocess.build({"kind": "tensors"}, [spec]).encode({"ids": [[0, 10]]})


@pytest.mark.parametrize(("low", "high", "words"), [(0, None, "below 0"), (None, 9, "above 9")])
def test_a_one_sided_range_is_named(low, high, words):
    spec = TensorSpec("ids", "int64", ("batch",), low=low, high=high)
    with pytest.raises(RequestError, match=words):
        preprocess.build({"kind": "tensors"}, [spec]).encode({"ids": [-1 if low == 0 else 10]})


def test_rows_that_a_client_padded_itself_are_valid_whatever_the_range():
    tensors = preprocess.build({"kind": "tensors"}, [TensorSpec("ids", "int64", ("batch", "length"), low=1, high=9)])
    assert len(tensors.encode({"ids": [[1, 2, 3], [4, 0, 0]]})) == 2
    with pytest.raises(RequestError, match="outside"):
        tensors.encode({"ids": [[1, 2, 3], [4, -1, 0]]})
    fixed = preprocess.build({"kind": "tensors"}, [TensorSpec("ids", "int64", ("batch", 2), low=1, high=9)])
    with pytest.raises(RequestError, match="outside"):
        fixed.encode({"ids": [[1, 0]]})


@pytest.mark.parametrize(
    ("dtype", "value", "words"),
    [
        ("int64", 1.5, "must be whole numbers that int64 can hold (got 1.5)"),
        ("int64", 1e23, "must be whole numbers that int64 can hold (got 1e+23)"),
        ("int64", float("inf"), "must be whole numbers that int64 can hold (got inf)"),
        ("int32", float(2**53), "must be whole numbers that int32 can hold (got 9007199254740992)"),
        ("int8", 300, "must be whole numbers that int8 can hold (got 300)"),
        ("float32", 1e39, "must be finite numbers that float32 can hold (got 1e+39)"),
        ("float32", float("nan"), "must be finite numbers that float32 can hold (got nan)"),
    ],
)
def test_a_number_that_the_dtype_cannot_hold_is_named(dtype, value, words):
    tensors = preprocess.build({"kind": "tensors"}, [TensorSpec("n", dtype, ("batch", 2))])
    with pytest.raises(RequestError, match=re.escape(f"input 'n' {words}")):
        tensors.encode({"n": [[1, value]]})


@pytest.mark.parametrize("value", [float(2**53), -float(2**53), np.float32(2**60), 9007199254740993.5])
@pytest.mark.parametrize("made", [list, np.array])
def test_a_float_that_may_have_been_another_whole_number_is_refused(value, made):
    tensors = preprocess.build({"kind": "tensors"}, [TensorSpec("n", "int64", ("batch", 2))])
    lost = rf"^input 'n' has a number of 2\*\*53 or more .* loses digits \(read as {int(value)}\): write it as a whole number"
    with pytest.raises(RequestError, match=lost):
        tensors.encode({"n": [made([1, value])]})


def test_a_float_below_is_the_whole_number_that_was_written_and_leaves_others_in_full():
    tensors = preprocess.build({"kind": "tensors"}, [TensorSpec("n", "int64", ("batch", 2))])
    row = [float(2**53 - 1), -(2**53) - 1]
    assert tensors.encode({"n": [row]})[0]["n"].tolist() == [2**53 - 1, -(2**53) - 1]


def test_whole_numbers_in_a_message_have_all_their_digits():
    tensors = preprocess.build({"kind": "tensors"}, [TensorSpec("n", "int64", ("batch",), low=2**53 + 1, high=2**53 + 3)])
    with pytest.raises(RequestError, match=r"outside 9007199254740993 … 9007199254740995 \(got 9007199254740996\)"):
        tensors.encode({"n": [2**53 + 4]})
    with pytest.raises(RequestError, match=r"\(got -9223372036854775808\)"):
        tensors.encode({"n": [-(2**63)]})
    with pytest.raises(RequestError, match=r"that int64 can hold \(got 9223372036854775808\)"):
        tensors.encode({"n": [2**63]})


def test_rows_of_different_length_are_padded_with_the_pad_of_the_input():
    spec = TensorSpec("x", "float32", ("batch", "length", 2), pad=-1)
    chosen = preprocess.build({"kind": "tensors"}, [spec])
    batch = chosen.collate(chosen.encode({"x": [[[1, 1]], [[2, 2], [3, 3]]]}))
    assert batch["x"].tolist() == [[[1, 1], [-1, -1]], [[2, 2], [3, 3]]]


def test_several_inputs_stay_row_by_row():
    specs = [TensorSpec("a", "float32", ("batch",)), TensorSpec("b", "int64", ("batch", 1))]
    chosen = preprocess.build({"kind": "tensors"}, specs)
    batch = chosen.collate(chosen.encode({"a": [1.0, 2.0], "b": [[3], [4]]}))
    assert batch["a"].tolist() == [1.0, 2.0]
    assert batch["b"].tolist() == [[3], [4]]


def test_a_request_whose_inputs_differ_in_a_shared_dimension_is_refused():
    specs = [TensorSpec("x", "float32", ("batch", "steps")), TensorSpec("keep", "bool", ("batch", "steps"))]
    tensors = preprocess.build({"kind": "tensors"}, specs)
    assert len(tensors.encode({"x": [[1.0, 2.0], [1.0]], "keep": [[True, False], [True]]})) == 2
    with pytest.raises(RequestError, match="share the dimension 'steps', and have sizes 2 and 1 in one row"):
        tensors.encode({"x": [[1.0, 2.0]], "keep": [[True]]})


def test_a_value_that_pads_a_row_is_named_beside_a_range_that_lacks_it():
    tensors = preprocess.build({"kind": "tensors"}, [TensorSpec("ids", "int64", ("batch", "length"), 0, 39, -1)])
    assert len(tensors.encode({"ids": [[3, -1]]})) == 1
    with pytest.raises(RequestError, match=r"'ids' is outside 0 … 39 \(got -2 … -1\): give values in range, or -1 where a row ends early"):
        tensors.encode({"ids": [[-2, -1]]})


ROWS = TensorSpec("rows", "float32", ("batch", "length", 2))
STEPS = TensorSpec("steps", "int64", ("batch",), 1, "length")


def row(length):
    return np.zeros((length, 2), np.float32)


def test_a_value_that_a_dimension_bounds_is_checked_row_by_row_before_padding():
    tensors = preprocess.build({"kind": "tensors"}, [ROWS, STEPS])
    examples = tensors.encode({"rows": [row(2), row(5)], "steps": [2, 5]})
    assert tensors.collate(examples)["rows"].shape == (2, 5, 2)
    with pytest.raises(RequestError, match=r"input 'steps' is outside 1 … 2 \(got 3; the limit is this row's length\)"):
        tensors.encode({"rows": [row(2), row(5)], "steps": [3, 5]})  # 3 would fit into the padded batch


@pytest.mark.parametrize(("length", "fits"), [(31, False), (32, True), (33, False), (64, True), (96, True), (128, False)])
def test_a_size_that_was_not_proven_is_refused(length, fits):
    tensors = preprocess.build({"kind": "tensors"}, [ROWS], [Dimension("length", 32, 96, 32)])
    if fits:
        assert len(tensors.encode({"rows": [row(length)]})) == 1
        return
    with pytest.raises(
        RequestError, match=rf"has size {length} in the dimension 'length', the model takes 32 … 96 in multiples of 32: give"
    ):
        tensors.encode({"rows": [row(length)]})


def test_text_of_any_length_is_within_the_sizes_that_are_proven():
    chosen = preprocess.build({**CONFIG, "unicode_form": None}, [IDS], [Dimension("length", 4, 8, 4)])
    assert chosen.collate(chosen.encode({"text": ["好" * 1000]}))["ids"].shape == (1, 8)
