"""Rows of a model with text and numbers: cleaned, described and read again as each input's kind says."""

import datetime
import json

import numpy as np
import pytest

from paddleship.config import loading
from paddleship.data import dataset, input_encoders
from paddleship.data.row_validation import RowValidator
from paddleship.errors import DataError, RequestError

INPUTS = [
    {"name": "ids", "dtype": "int64", "shape": ["batch", "length"]},
    {"name": "price", "dtype": "float32", "shape": ["batch"]},
    {"name": "stars", "dtype": "int64", "shape": ["batch"]},
]
KINDS = {"ids": {"kind": "characters", "column": "title", "max_length": 6, "multiple_of": 4}, "price": {"kind": "numbers"}}
ROWS = [{"title": f"Ｎo {index}", "price": 100 + index, "stars": 1 + index % 5, "label": index % 2} for index in range(100)]


@pytest.fixture
def shop(reviews_params):
    def of(**changes):
        data = {"inputs": ["title", "price", "stars"], "validation": 0.2, "test": 0.2}
        return reviews_params(loading.merge({"preprocess": {"inputs": KINDS}, "data": data, "model": {"inputs": INPUTS}}, changes))

    return of


def cleaned(values, rows=ROWS):
    return dataset.clean(rows, values.data, RowValidator.of(values))


def test_rows_are_stored_as_clients_send_them_and_encoded_as_fitted(shop, tmp_path):
    values = shop()
    splits, _ = cleaned(values)
    schema = dataset.describe(splits, values)
    entries = schema["preprocess"]["inputs"]
    training = np.array(splits["train"].columns["price"], float)
    assert entries["price"] == {
        "kind": "numbers",
        "column": "price",
        "log": False,
        "mean": [training.mean()],
        "deviation": [training.std()],
    }
    assert list(entries["ids"]) == ["kind", "column", "unicode_form", "vocabulary", "max_length", "multiple_of"]
    assert [(spec["low"], spec["high"]) for spec in schema["inputs"]] == [(0, len(entries["ids"]["vocabulary"]) + 1), (None, None), (1, 5)]
    assert schema["dimensions"] == [{"name": "length", "low": 4, "high": 8, "multiple_of": 4}]
    dataset.write(splits, schema, tmp_path)
    preprocess, config, specs = dataset.read_preprocess(tmp_path)
    assert config == json.loads(json.dumps(schema["preprocess"]))
    rows = dataset.read(tmp_path, "train")
    assert set(rows.columns["title"][0]) & set("Ｎ")
    batch = preprocess.collate(dataset.encode(preprocess, rows))
    assert [batch[spec.name].dtype.name for spec in specs] == ["int64", "float32", "int64"]
    assert float(batch["price"].mean()) == pytest.approx(0, abs=1e-6)
    assert rows.hashes(RowValidator.of(values).identity) == set(rows.keys)


def test_rows_are_repeats_if_no_input_tells_them_apart(shop):
    again = [{**ROWS[0], "title": " No  0 "}, {**ROWS[1], "price": np.float32(101)}, {**ROWS[2], "stars": "3"}]
    _, counts = cleaned(shop(), ROWS + again)
    assert counts.repeated == 3
    _, counts = cleaned(shop(preprocess={"inputs": {**KINDS, "ids": {**KINDS["ids"], "unicode_form": None}}}), ROWS + again)
    assert counts.repeated == 2


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"title": 3}, "column 'title' holds 3 of type int, and the input 'ids' is made from text"),
        ({"price": "dear"}, "row 100 of data.reader does not fit model.inputs: input 'price' cannot be read as float64"),
        ({"price": float("inf")}, "input 'price' must be finite numbers that float64 can hold"),
        ({"stars": 2.5}, "input 'stars' must be whole numbers that int64 can hold"),
        ({"price": "2024-01-05"}, "row 100 of data.reader does not fit model.inputs: input 'price' cannot be read as float64 (got '2024-"),
        (
            {"price": datetime.date(2024, 1, 5)},
            "row 100 of data.reader: column 'price' holds datetime.date(2024, 1, 5) with a value of type",
        ),
    ],
)
def test_a_value_that_no_kind_takes_is_named_with_its_row(shop, row, words):
    with pytest.raises(DataError) as caught:
        cleaned(shop(), [*ROWS, {**ROWS[0], **row}])
    assert words in str(caught.value)


def test_blank_text_and_missing_numbers_drop_the_row(shop):
    _, counts = cleaned(shop(), [*ROWS, {**ROWS[0], "title": "\u3000"}, {**ROWS[1], "price": None}])
    assert dict(counts.empty) == {"title": 1, "price": 1}


def test_a_missing_name_is_a_category_of_its_own_where_the_params_say_so(reviews_params):
    rows = [{"town": (None, "Oslo", " ")[number % 3], "label": number % 2, "nr": number} for number in range(90)]
    of = {"data": {"inputs": ["town", "nr"], "validation": 0.2, "test": 0.2}}
    inputs = [{"name": "town", "dtype": "int64", "shape": ["batch"]}, {"name": "nr", "dtype": "int64", "shape": ["batch"]}]
    for empty, kept, names in ((False, 30, ["Oslo"]), (True, 90, ["", "Oslo"])):
        entry = {"kind": "categories", "empty": empty}
        values = reviews_params(loading.merge(of, {"preprocess": {"inputs": {"town": entry}}, "model": {"inputs": inputs}}))
        splits, counts = cleaned(values, rows)
        assert counts.kept == kept
        made = input_encoders.fit(input_encoders.declared(values), splits["train"].columns).encoders[0]
        assert sorted(made.names) == names
        assert list(made.stored()) == ["unicode_form", "unknown", "names"]
        again = type(made)(column="town", spec=made.spec, **made.stored())
        if empty:
            assert int(again.encode("")) == int(again.encode(" ")) == again.names.index("") + 1
            continue
        with pytest.raises(RequestError, match="is empty"):
            again.encode("")


def kinds(**entries):
    return {"preprocess": {"inputs": entries}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (kinds(cost={"kind": "numbers"}), "preprocess.inputs names 'cost', which is not one of model.inputs (ids, price, stars)"),
        (kinds(ids={"kind": "characters"}), "preprocess.inputs.ids.column 'ids' is not one of data.inputs (title, price, stars)"),
        ({"data": {"inputs": ["title", "price"]}}, "model.inputs names 'stars', which is not a column of the data"),
        ({"preprocess": {"kind": "characters", "column": "body"}}, "preprocess.column 'body' is not one of data.inputs (title, price"),
        ({"preprocess": {"kind": "characters", "input": "x"}}, "preprocess.input 'x', which is not one of model.inputs (ids, price"),
    ],
)
def test_an_input_or_a_column_that_is_not_there_is_named(shop, changes, words):
    with pytest.raises(DataError) as caught:
        input_encoders.declared(shop(**changes))
    assert words in str(caught.value)


def test_two_kinds_that_need_other_sizes_of_one_dimension_are_refused(shop):
    more = {"name": "more", "dtype": "int64", "shape": ["batch", "length"]}
    kinds = {**KINDS, "more": {**KINDS["ids"], "multiple_of": 8}}
    values = shop(model={"inputs": [*INPUTS, more]}, preprocess={"inputs": kinds})
    splits, _ = cleaned(values)
    with pytest.raises(
        DataError, match=r"inputs 'ids' and 'more' share the dimension 'length', and have the sizes 4 … 8 in multiples of 4 and 8"
    ):
        dataset.describe(splits, values)
