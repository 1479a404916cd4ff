"""Empty cells of a table: rows are dropped, or their numbers filled from the training rows, counted, and named by their columns."""

import json

import numpy as np
import pytest

from paddleship.config import loading
from paddleship.data import dataset, input_encoders, missing_numbers, near_repeats
from paddleship.data.row_validation import RowValidator
from paddleship.errors import DataError


@pytest.fixture
def params(tmp_path):
    """Params of a model that takes a list of two columns, and a number of its own."""

    def of(reader="csv", kwargs=None, **numbers):
        entry = {"kind": "numbers", **numbers}
        return loading.parse({
            "name": "x", "code": {"watch": "."},
            "data": {
                "raw": str(tmp_path / f"raw.{reader}"), "reader": reader, "inputs": ["size", "age"], "label": "y", "task": "regression",
                "kwargs": {"vectors": {"size": ["rooms", "area"]}} if kwargs is None else kwargs, "classes": [],
            },
            "preprocess": {"inputs": {"size": entry, "age": entry}},
            "model": {"factory": "a:b", "inputs": [
                {"name": "size", "dtype": "float32", "shape": ["batch", 2]}, {"name": "age", "dtype": "float32", "shape": ["batch"]},
            ]},
            "package": {"repository": "x"},
        })  # fmt: skip

    return of


def table(tmp_path, lines):
    (tmp_path / "raw.csv").write_text("rooms,area,age,y\n" + "".join(f"{line}\n" for line in lines))


def cleaned(params):
    validator = RowValidator.of(params)
    return dataset.clean(dataset.read_raw(params.data, validator.text_columns), params.data, validator)


def written(params, folder):
    """The parts as the stages read them, and the preprocess."""
    splits, _ = cleaned(params)
    dataset.write(splits, dataset.describe(splits, params), folder)
    preprocess, _, _ = dataset.read_preprocess(folder)
    return {split: dataset.read(folder, split) for split in dataset.SPLITS}, preprocess


LINES = [f"{'' if row % 4 == 1 else row % 7},{'' if row % 6 == 2 else row * 1.5},{'' if row % 10 == 3 else row},{row}" for row in range(60)]


@pytest.mark.parametrize("strategy", ["mean", "median"])
def test_empty_cells_are_filled_from_the_training_rows_alone(params, tmp_path, strategy):
    table(tmp_path, LINES)
    values = params(missing=strategy)
    parts, preprocess = written(values, tmp_path)
    assert sum(map(len, parts.values())) == 60
    train = np.array([[*size, age] for size, age in zip(parts["train"].columns["size"], parts["train"].columns["age"], strict=True)], float)
    known = (np.nanmean if strategy == "mean" else np.nanmedian)(train, axis=0)
    stored = json.loads((tmp_path / "schema.json").read_text())["preprocess"]["inputs"]
    assert [*stored["size"]["fill"], *stored["age"]["fill"]] == pytest.approx(known)
    for rows in parts.values():
        for example in dataset.encode(preprocess, rows):
            assert np.isfinite([*example["size"], example["age"]]).all()


def test_filled_numbers_are_counted_by_column(params, tmp_path):
    table(tmp_path, LINES)
    values = params(missing="mean")
    parts, preprocess = written(values, tmp_path)
    found = missing_numbers.count(preprocess, [rows.columns for rows in parts.values()], values.data)
    assert found.columns == {"rooms": 15, "area": 10, "age": 6}
    assert (found.filled, found.facts["rooms"]) == (31, {"rows": 15, "share": 0.25})
    (finding,) = found.findings()
    assert finding.message.startswith("31 missing numbers are filled: 15 in 'rooms' (25.0% of the rows), 10 in 'area' (16.7% of the rows)")


def test_rows_with_an_empty_cell_are_dropped_by_default_and_counted_by_column(params, tmp_path):
    table(tmp_path, LINES)
    splits, counts = cleaned(params())
    assert dict(counts.empty) == {"rooms": 15, "area": 10, "age": 3}  # by the first empty column of a row
    assert sum(map(len, splits.values())) == counts.kept == 32
    unfitted = input_encoders.declared(params())
    assert missing_numbers.count(unfitted, [rows.columns for rows in splits.values()], params().data).columns == {}


@pytest.mark.parametrize(("place", "name"), [(0, "rooms"), (1, "area"), (2, "age")])
def test_a_column_without_any_training_number_is_refused_by_its_name(params, tmp_path, place, name):
    rows = [line.split(",") for line in LINES]
    table(tmp_path, [",".join("" if at == place else cell for at, cell in enumerate(row)) for row in rows])
    with pytest.raises(
        DataError, match=rf"column '{name}' has no number in any of the \d+ training rows, so there is nothing to"
    ) as refused:
        written(params(missing="mean"), tmp_path)
    assert len(str(refused.value).splitlines()) == 1


def test_equal_rows_with_the_same_numbers_missing_are_one_row(params, tmp_path):
    table(tmp_path, [*LINES, "1,,2,7", "1,,2,7", ",,,9", ",,,9"])
    splits, counts = cleaned(params(missing="mean"))
    assert (counts.repeated, counts.kept) == (2, 62)
    identity = RowValidator.of(params(missing="mean")).identity
    contents = [rows.hashes(identity) for rows in splits.values()]
    assert len(set().union(*contents)) == sum(map(len, contents)) == 62


def test_null_and_nan_in_typed_rows_are_missing_numbers_and_a_list_that_is_null_drops_its_row(params, tmp_path):
    rows = [{"size": [row, row * 2.5], "age": row, "y": row} for row in range(50)]
    rows[3] |= {"size": [None, 4]}
    rows[4] |= {"age": None}
    rows[5] |= {"size": None}
    rows[6] |= {"size": [6, float("nan")]}
    (tmp_path / "raw.jsonl").write_text("\n".join(map(json.dumps, rows)))
    values = params("jsonl", {}, missing="mean")
    parts, preprocess = written(values, tmp_path)
    _, counts = cleaned(values)
    assert (dict(counts.empty), counts.kept) == ({"size": 1}, 49)
    found = missing_numbers.count(preprocess, [rows.columns for rows in parts.values()], values.data)
    assert found.columns == {"size[0]": 1, "size[1]": 1, "age": 1}
    with pytest.raises(DataError, match=r"column 'size' holds \[None, 4\] with a value of type NoneType"):
        cleaned(params("jsonl", {}))


@pytest.mark.parametrize(("line", "words"), [
    ("old,,3,4", "row 60 of data.reader: column 'rooms' does not fit model.inputs: input 'size' cannot be read as float64 (got 'old')"),
    (
        ",nan,3,4",
        "row 60 of data.reader: column 'area' does not fit model.inputs: input 'size' must be finite numbers"),
])  # fmt: skip
def test_a_word_beside_an_empty_cell_is_named_by_its_column(params, tmp_path, line, words):
    table(tmp_path, [*LINES, line])
    with pytest.raises(DataError) as refused:
        cleaned(params(missing="median"))
    assert str(refused.value).startswith(words)


def test_rows_that_lack_the_same_number_may_be_near_repeats():
    random = np.random.default_rng(0)
    train = {"x": [*random.normal(size=(200, 4))]}
    train["x"][7][2] = np.nan
    near, other, filled = train["x"][7] + 1e-9, train["x"][7] + 1, train["x"][7].copy()
    filled[2] = 0.5
    assert near_repeats.find(train, {"x": [near, other, filled]}).pairs == {0: 7}
