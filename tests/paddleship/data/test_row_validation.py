"""Rows as readers give them: equal contents are one row whatever their types, and what cannot be used is named with its row."""

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from paddleship.config.sections.data import Data
from paddleship.data import dataset, row_validation
from paddleship.data.row_validation import RowValidator
from paddleship.errors import DataError
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.spec import Dimension, TensorSpec

X = TensorSpec("x", "float32", ("batch", "steps"))
MASK = TensorSpec("mask", "bool", ("batch", "steps"))


def settings(**changes):
    values = {"raw": "raw", "reader": "m:read", "inputs": ["x"], "label": "y", "task": "regression", "validation": 0.2, "test": 0.2}
    return Data(**values | changes)


def kept(rows, tensors=(X,), **changes):
    data = settings(**changes)
    return dataset.clean(rows, data, RowValidator(data, preprocess.build({}, tensors)))


@pytest.mark.parametrize("tensors", [(X,), ()], ids=["an input of the model", "another column"])
@pytest.mark.parametrize("other", [float, np.float32, np.int16, np.uint64, Decimal, Fraction], ids=lambda kind: kind.__name__)
def test_equal_numbers_of_two_types_are_one_row_on_one_side(other, tensors):
    rows = [{"x": [kind(index), kind(2)], "y": 1} for index in range(100) for kind in (int, other)]
    splits, counts = kept(rows, tensors)
    assert counts.repeated == 100
    parts = [rows.hashes(RowValidator(settings()).identity) for rows in splits.values()]
    assert sum(len(part) for part in parts) == len(set.union(*parts)) == 100


def test_numbers_that_the_model_cannot_tell_apart_are_one_row():
    rows = [{"x": [value], "y": 1} for index in range(100) for value in (index / 7, float(np.float32(index / 7)))]
    assert kept(rows)[1].repeated == 100


def test_hashes_of_what_was_written_are_the_keys(tmp_path):
    splits, _ = kept([{"x": [index / 7] * (1 + index % 3), "y": index} for index in range(60)])
    dataset.write(splits, {}, tmp_path)
    for split in dataset.SPLITS:
        back = dataset.read(tmp_path, split)
        assert back.hashes(RowValidator(settings()).identity) == set(back.keys)


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (0.0, -0.0, True),
        (True, 1.0, True),
        (2**60, float(2**60), True),
        (2**60 + 1, float(2**60), False),
        (2**60 + 1, 2**60 + 1, True),
        ([1], 1, False),
        ("1", 1, False),
        (np.array(["a", "b"], "<U9"), ["a", "b"], True),
        (["a", "b"], ["a", "c"], False),
    ],
)
def test_equal_values_hash_equal(one, other, equal):
    assert (row_validation.content_hash([one]) == row_validation.content_hash([other])) is equal


class Odd:
    pass


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([[1, 2, 3], [1, 2]], "whose parts differ in length"),
        ([1.0, None], "with a value of type NoneType"),
        ([Odd()], "with a value of type Odd"),
        ({"a": 1}, "with a value of type dict"),
        (datetime.datetime(2020, 1, 1), "with a value of type datetime"),
        (np.array(["2020-01-01"], "datetime64[D]"), "of type datetime64"),
        ([1j], "of type complex128"),
        ([10**400], "which float64 cannot hold"),
        (np.zeros(0), "(shape [0])"),
    ],
)
def test_a_value_that_is_no_number_and_no_text_is_named_with_its_row_and_column(value, words):
    with pytest.raises(DataError) as caught:
        kept([{"x": [1.0], "y": 1}, {"x": value, "y": 1}], tensors=())
    assert str(caught.value).startswith("row 1 of data.reader: column 'x' holds ")
    assert words in str(caught.value)


@pytest.mark.parametrize("value", [["seven"], [float("nan")], [[1.0]], 1.0, "7.5"], ids=str)
def test_a_value_that_the_model_cannot_take_is_named_with_its_row(value):
    with pytest.raises(DataError, match=r"^row 1 of data.reader does not fit model.inputs: input 'x' .*give"):
        kept([{"x": [1.0], "y": 1}, {"x": value, "y": 1}])


@pytest.mark.parametrize("value", ["seven", [[1.0]], [True]], ids=str)
def test_a_column_keeps_one_kind(value):
    with pytest.raises(DataError, match=r"^row 1 of data.reader: column 'x' .* and row 0 holds numbers of 1 dimensions"):
        kept([{"x": [1.0], "y": 1}, {"x": value, "y": 1}], tensors=())


def test_inputs_that_share_a_dimension_agree_in_every_row():
    good, bad = {"x": [1.0, 2.0], "mask": [True, False], "y": 1}, {"x": [1.0, 2.0], "mask": [True], "y": 1}
    with pytest.raises(DataError, match=r"^row 1 .* 'x' and 'mask' share the dimension 'steps', and have sizes 2 and 1"):
        kept([good, bad], (X, MASK), inputs=["x", "mask"])


def test_text_is_no_truth_value():
    with pytest.raises(DataError, match="'mask' cannot be read as bool"):
        kept([{"mask": ["False"], "y": 1}], (MASK,), inputs=["mask"])


def test_an_input_that_is_no_column_is_named(reviews_params):
    with pytest.raises(DataError, match=r"model.inputs names 'ids', which is not a column of the data \(data.inputs: text\)"):
        RowValidator.of(reviews_params({"preprocess": {"kind": "tensors"}}))


def test_numbers_in_the_text_column_are_named_with_their_row(reviews_params):
    with pytest.raises(DataError, match=r"row 0 .* column 'text' holds 3 of type int, and the input 'ids' is made from text: name another"):
        RowValidator.of(reviews_params()).values(0, {"text": 3})


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ([float("nan")], "holds [nan]"),
        ([1e300], "holds [1e+300]"),
        ([1.0, 2.0], "holds [1.0, 2.0] of shape [2], and row 0 has shape [1]"),
        ("high", "holds 'high', and a regression needs numbers"),
    ],
)
def test_a_label_that_no_regression_can_take_is_named_with_its_row(label, words):
    with pytest.raises(DataError) as caught:
        kept([{"x": [1.0], "y": [1.0]}, {"x": [2.0], "y": label}])
    assert str(caught.value).startswith("row 1 of data.reader: column 'y' ")
    assert words in str(caught.value)


def test_a_class_name_in_another_unicode_form_is_told_apart_from_one_that_looks_the_same():
    with pytest.raises(DataError, match=r"differs from 'y\u00e9s' of data.classes only in its Unicode form: write both in one"):
        kept([{"x": [1.0], "y": "ye\u0301s"}], task="classification", classes=["no", "y\u00e9s"])


@pytest.mark.parametrize("label", [1.7, 0.2, float("nan"), [0, 1], [[0], [0, 1]], np.arange(2), 2**70, "maybe", Decimal("0.5")], ids=str)
def test_a_label_that_is_no_class_is_named_with_its_row(label):
    with pytest.raises(DataError, match=r"^row 1 .* neither a class id nor one of data.classes \['no', 'yes'\]: "):
        kept([{"x": [1.0], "y": 1}, {"x": [2.0], "y": label}], task="classification", classes=["no", "yes"])


def test_an_id_is_one_label_in_every_type_of_number():
    rows = [{"x": [float(index)], "y": label} for index in range(100) for label in (1, 1.0, np.int8(1), Decimal(1), np.array([1]))]
    splits, counts = kept(rows, task="classification", classes=["no", "yes"])
    assert (counts.repeated, counts.contradictory) == (400, 0)
    assert splits["train"].labels.dtype == np.int64


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"x": [1.0, 2.0], "n": 3}, "input 'n' is outside 1 … 2 (got 3; the limit is this row's steps): give values in range"),
        (
            {"x": [1.0] * 3, "n": 3},
            "input 'x' has size 3 in the dimension 'steps', the model takes 2 … 4 in multiples of 2: give such a size",
        ),
    ],
)
def test_a_row_that_breaks_a_rule_between_inputs_is_named(values, words):
    bounded = TensorSpec("n", "int64", ("batch",), 1, "steps")
    rows = RowValidator(settings(inputs=["x", "n"]), preprocess.build({}, (X, bounded), (Dimension("steps", 2, 4, 2),)))
    rows.values(0, {"x": [1.0, 2.0], "n": 2})
    with pytest.raises(DataError) as caught:
        rows.values(7, values)
    assert str(caught.value) == f"row 7 of data.reader does not fit model.inputs: {words}, or return None there to drop the row"


def test_a_float_among_objects_is_no_whole_number_where_it_has_lost_digits():
    validator = RowValidator(settings(), preprocess.build({}, (TensorSpec("x", "int64", ("batch", 2)),)))
    assert validator.values(0, {"x": [Decimal(2**53 + 1), 5.0]}).values[0].tolist() == [2**53 + 1, 5]
    with pytest.raises(DataError, match=r"^row 1 .* loses digits \(read as 9007199254740992\)"):
        validator.values(1, {"x": [Decimal(1), float(2**53)]})


LABELLED = {"task": "classification", "classes": ["no", "yes"]}


@pytest.mark.parametrize("labels", [("yes", 1), (0, "no"), (True, "yes"), (1.0, "no")], ids=str)
def test_a_label_column_that_mixes_numbers_and_text_is_refused(labels):
    with pytest.raises(
        DataError, match=r"^row 1 of data.reader: column 'y' holds .*, and row 0 holds .*: let data.reader return class names"
    ):
        kept([{"x": [float(number)], "y": label} for number, label in enumerate(labels)], **LABELLED)


@pytest.mark.parametrize(
    ("classes", "label"),
    [(["2", "1", "0"], 0), (["1", "0"], 1.0), (["01", "02"], 0), (["a", " 5 "], 0), (["-1", "1"], 1), (["２", "１"], np.int64(0))]  # noqa: RUF005
    + [(["1.0", "0.0"], 0), (["True", "False"], True), (["yes", "no"], False)],
    ids=str,
)
def test_numbers_are_refused_as_labels_where_a_class_name_is_another_number(classes, label):
    with pytest.raises(
        DataError, match=r"^row 0 of data.reader: column 'y' holds .*if it is a name, let data.reader return text, such as '"
    ):
        kept([{"x": [1.0], "y": label}], task="classification", classes=classes)


@pytest.mark.parametrize(
    ("classes", "labels"),
    [(["0", "1"], (0, 1)), (["2", "1"], ("1", "2")), (["no", "yes"], (False, True)), (["v1", "1_0"], (0, 1)), (["0.5", "nan"], (0, 1))],
    ids=str,
)
def test_labels_that_have_one_reading_are_taken(classes, labels):
    rows = [{"x": [float(number)], "y": labels[number % 2]} for number in range(100)]
    assert kept(rows, task="classification", classes=classes)[1].kept == 100


@pytest.mark.parametrize("word", ["NaN", "-inf", "1e50", "1e400", "", "-", "1,5", "0x10"])
@pytest.mark.parametrize("nested", [True, False])
def test_text_that_is_no_finite_number_is_named_with_its_row_and_column(word, nested):
    spec = TensorSpec("x", "float32", ("batch", 2) if nested else ("batch",))
    good, bad = (["1", " 5 "], ["2", word]) if nested else ("1", word or " - ")
    with pytest.raises(
        DataError, match=r"^row 1 of data.reader does not fit model.inputs: input 'x' .*\(got '.*'\): give .*numbers, or return"
    ):
        kept([{"x": good, "y": 1}, {"x": bad, "y": 1}], (spec,))


@pytest.mark.parametrize(
    "value", [[1.0, None], [Decimal("NaN")], [b"1"], [datetime.datetime(2020, 1, 1)], ["3000000000"], [True, "2"]], ids=str
)
def test_what_is_no_number_in_a_numeric_list_is_one_error(value):
    with pytest.raises(DataError, match=r"^row 1 of data.reader.*'x'"):
        kept([{"x": [1], "y": 1}, {"x": value, "y": 1}], (TensorSpec("x", "int32", ("batch", "steps")),))


def test_decimals_that_are_whole_keep_all_their_digits():
    assert row_validation._numbers(np.array([Decimal(2**53 + 1)], object), str).tolist() == [2**53 + 1]
