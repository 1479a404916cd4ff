import numpy as np
import pytest

from paddleship.config.sections.data import Data
from paddleship.data import dataset
from paddleship.data.row_validation import RowValidator
from paddleship.errors import DataError
from paddleship.shipped.computing.preprocess import build
from paddleship.shipped.computing.spec import TensorSpec


def settings(**changes):
    return Data(
        **{
            "raw": "raw",
            "reader": "m:read",
            "inputs": ["text"],
            "task": "classification",
            "classes": ["no", "yes"],
            "validation": 0.2,
            "test": 0.2,
        }
        | changes
    )


def reviews(count=200):
    return [{"text": f"row number {index}", "label": index % 2} for index in range(count)]


def test_exact_repeats_are_dropped_before_the_split():
    splits, counts = dataset.clean(reviews() + reviews(), settings())
    assert sum(len(rows) for rows in splits.values()) == 200
    assert counts.repeated == 200
    keys = [set(rows.keys) for rows in splits.values()]
    assert not keys[0] & keys[1] and not keys[0] & keys[2] and not keys[1] & keys[2]  # noqa: PT018


def test_rows_that_differ_in_white_space_or_width_only_are_repeats():
    _, counts = dataset.clean([*reviews(), {"text": " row  number\n0 ", "label": 0}, {"text": "ｒow number 0", "label": 0}], settings())
    assert counts.repeated == 2


def test_text_is_kept_as_it_came():
    raw = [{"text": f" ｒow　number {index}\n", "label": index % 2} for index in range(100)]
    splits, _ = dataset.clean(raw, settings())
    assert {text for rows in splits.values() for text in rows.columns["text"]} == {row["text"] for row in raw}


@pytest.mark.parametrize(("form", "repeated"), [("NFKC", 2), ("NFC", 1), (None, 0)])
def test_texts_are_repeats_where_the_preprocess_makes_them_equal(form, repeated):
    data = settings()
    text = {"kind": "characters", "column": "text", "input": "ids", "unicode_form": form}
    added = [{"text": "ｒow number 0", "label": 0}, {"text": "caf\u00e9", "label": 0}, {"text": "cafe\u0301", "label": 0}]
    _, counts = dataset.clean(
        [*reviews(), *added], data, RowValidator(data, build(text, [TensorSpec("ids", "int64", ("batch", "length"))]))
    )
    assert counts.repeated == repeated


def test_half_a_character_is_named_with_its_row():
    with pytest.raises(DataError, match=r"^row 1 of data.reader: column 'text' holds .*UTF-8 cannot encode"):
        dataset.clean([{"text": "a", "label": 0}, {"text": "a\ud800", "label": 0}], settings())


def test_a_text_with_both_labels_is_dropped_altogether():
    splits, counts = dataset.clean([*reviews(), {"text": "row number 0", "label": 1}], settings())
    assert counts.contradictory == 2
    assert all("row number 0" not in rows.columns["text"] for rows in splits.values())


def test_empty_and_missing_values_are_dropped_and_counted():
    empty = [{"text": "  ", "label": 0}, {"text": None, "label": 0}, {"text": "x", "label": None}, {"text": "y", "label": ""}]
    _, counts = dataset.clean([*reviews(), *empty], settings())
    assert counts.empty == {"text": 2, "label": 2}
    assert counts.unusable == 4


def test_the_first_rows_that_cannot_be_used_are_named_at_once_and_the_others_counted():
    rows = [*reviews(), *({"text": "x", "label": name} for name in ("a", "b", "c", "d", "e"))]
    with pytest.raises(DataError, match=r"row 200 .* 'a'.*; row 201 .* 'b'.*; row 202 .* 'c'.*; and 2 more rows cannot be used: ") as told:
        dataset.clean(rows, settings())
    assert str(told.value).count("correct the label or data.classes") == 1
    with pytest.raises(DataError, match=r"^row 2 .*data.classes is empty: name the classes in data.classes; if labels are numbers"):
        dataset.clean([*reviews(2), *rows[-2:]], settings(classes=[]))
    with pytest.raises(DataError, match=r"has 2 names: correct the label or data.classes; row 201 .* set data.task to regression$"):
        dataset.clean([*reviews(), {"text": "y", "label": 7}, rows[-1]], settings())


def test_an_empty_text_may_be_the_name_of_a_class():
    rows = [{"text": f"row number {number}", "label": "" if number % 2 else "spoken"} for number in range(100)]
    _, counts = dataset.clean(rows, settings(classes=["", "spoken"]))
    assert counts.empty == {}


def test_rows_keep_their_split_when_data_grows():
    few, _ = dataset.clean(reviews(100), settings())
    many, _ = dataset.clean(reviews(1000), settings())
    for split in dataset.SPLITS:
        assert set(few[split].keys) <= set(many[split].keys)


def test_a_regression_keeps_contents_that_were_measured_twice():
    rows = [{"x": [float(index % 100)], "y": float(index)} for index in range(200)]
    splits, counts = dataset.clean(rows, settings(inputs=["x"], label="y", task="regression", classes=[]))
    assert counts.kept == 200
    assert splits["train"].labels.dtype == np.float32


def test_class_names_become_ids():
    splits, _ = dataset.clean([{"text": str(index), "label": ("no", "yes")[index % 2]} for index in range(100)], settings())
    assert set(splits["train"].labels) == {0, 1}


@pytest.mark.parametrize(
    ("label", "words"),
    [("maybe", "neither a class id nor one of data.classes"), (2, "the class id 2"), (-1, "the class id -1")],
)
def test_a_label_outside_the_classes_is_named(label, words):
    with pytest.raises(DataError, match=words):
        dataset.clean([{"text": str(index), "label": label} for index in range(100)], settings())


def test_an_empty_part_is_an_error():
    with pytest.raises(DataError, match="split is empty"):
        dataset.clean(reviews(2), settings())


def test_a_held_out_part_that_would_be_empty_gets_the_training_row_whose_hash_comes_first():
    rows = reviews(400)
    whole, _ = dataset.clean(rows, settings())
    texts = whole["train"].columns["text"][:3]
    splits, _ = dataset.clean([row for row in rows if row["text"] in texts], settings())
    assert {split: len(part) for split, part in splits.items()} == {"train": 1, "validation": 1, "test": 1}
    assert splits["test"].keys < splits["validation"].keys < splits["train"].keys


@pytest.mark.parametrize(
    "shares", [{"validation": 0.1, "test": 0.8}, {"validation": 0.05, "test": 0.05}, {"validation": 0.9, "test": 0.05}]
)
def test_ten_rows_are_enough_for_three_parts_whatever_their_hashes_and_shares(shares):
    for first in range(0, 400, 10):
        rows = [{"text": f"picture {number}", "label": number % 2} for number in range(first, first + 10)]
        splits, _ = dataset.clean(rows, settings(**shares))
        keys = [{*part.keys} for part in splits.values()]
        assert all(keys)
        assert len(set().union(*keys)) == sum(map(len, keys)) == 10


def test_rows_need_no_labels_if_none_are_named(tmp_path):
    rows = [{"text": row["text"]} for row in reviews(60)]
    splits, counts = dataset.clean(rows, settings(label=None))
    assert counts.kept == 60
    dataset.write(splits, {}, tmp_path)
    read = dataset.read(tmp_path, "test")
    assert not read.labelled
    assert read.take([0]).columns == {"text": splits["test"].columns["text"][:1]}


def write_reader(folder, body):
    (folder / "my_reader.py").write_text(f"def read(raw):\n    {body}\n")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return []", "found no rows"),
        ("return [{'other': 1}]", "column 'text'"),
        ("return None", "returned None of type NoneType: return or yield rows, each a mapping"),
        ("return [[1, 'no']]", r"row 0 of data.reader 'my_reader:read' is \[1, 'no'\] of type list: return or yield rows, each a mapping"),
        ("raise KeyError('colour')", "my_reader.py:2"),
    ],
)
def test_a_reader_that_fails_is_one_clear_error(tmp_path, monkeypatch, body, words):
    write_reader(tmp_path, body)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "my_reader", raising=False)
    with pytest.raises(DataError, match=words):
        dataset.read_raw(settings(raw=str(tmp_path), reader="my_reader:read"))


def test_missing_raw_data_says_what_to_do():
    with pytest.raises(DataError, match="does not exist: put the data there"):
        dataset.read_raw(settings(raw="no/such/folder"))


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b"],
        [1, 2],
        [[1, 2], [3]],
        [np.zeros((2, 3), np.float32), np.ones((2, 3), np.float32)],
        [np.zeros((1, 3), np.float32), np.ones((2, 3), np.float32)],
    ],
    ids=["text", "number", "ragged", "matrix", "ragged matrix"],
)
def test_columns_survive_parquet(tmp_path, values):
    rows = dataset.Rows({"x": values}, np.array([0, 1]), ["a", "b"])
    dataset.write({"train": rows}, {}, tmp_path)
    back = dataset.read(tmp_path, "train")
    for wrote, read in zip(values, back.columns["x"], strict=True):
        assert np.array_equal(np.asarray(wrote), np.asarray(read))
    assert back.keys == ["a", "b"]
    assert back.labels.tolist() == [0, 1]


def test_rows_that_changed_since_they_were_prepared_are_refused(tmp_path):
    rows = dataset.Rows({"x": [1.0, 2.0]}, np.array([0, 1]), ["a", "b"])
    dataset.write({"train": rows, "test": rows}, {}, tmp_path)
    other = dataset.Rows({"x": [1.0, 3.0]}, np.array([0, 1]), ["a", "b"])
    (tmp_path / "other").mkdir()
    dataset.write({"test": other}, {}, tmp_path / "other")
    (tmp_path / "other/test.parquet").replace(tmp_path / "test.parquet")
    assert len(dataset.read(tmp_path, "train")) == 2
    with pytest.raises(DataError, match=r"test\.parquet changed since it was prepared \(sha256 .*: run `paddleship run --again prepare`"):
        dataset.read(tmp_path, "test")


def test_an_integer_range_is_learned_from_the_data_unless_declared(reviews_params):
    overlay = {"preprocess": {"kind": "tensors"}, "data": {"inputs": ["ids"]}}
    rows = {"train": dataset.Rows({"ids": [[3, 9], [4]]}, np.array([0, 1]), ["a", "b"])}
    schema = dataset.describe(rows, reviews_params(overlay))
    assert (schema["inputs"][0]["low"], schema["inputs"][0]["high"]) == (3, 9)
    declared = overlay | {"model": {"inputs": [{"name": "ids", "dtype": "int64", "shape": ["batch", "length"], "low": 0, "high": 99}]}}
    assert dataset.describe(rows, reviews_params(declared))["inputs"][0]["high"] == 99


def test_one_end_that_is_declared_stays_and_the_other_is_learned(reviews_params):
    inputs = [{"name": "ids", "dtype": "int64", "shape": ["batch", "length"], "low": 0}]
    overlay = {"preprocess": {"kind": "tensors"}, "data": {"inputs": ["ids"]}, "model": {"inputs": inputs}}
    rows = {"train": dataset.Rows({"ids": [[3, 9], [4]]}, np.array([0, 1]), ["a", "b"])}
    schema = dataset.describe(rows, reviews_params(overlay))
    assert (schema["inputs"][0]["low"], schema["inputs"][0]["high"]) == (0, 9)


def test_the_sizes_of_a_dimension_are_those_of_all_parts_unless_declared(reviews_params):
    overlay = {"preprocess": {"kind": "tensors"}, "data": {"inputs": ["ids"]}}
    rows = {
        "train": dataset.Rows({"ids": [[3, 9], [4, 1, 2, 2]]}, np.array([0, 1]), ["a", "b"]),
        "test": dataset.Rows({"ids": [[3] * 6]}, np.array([0]), ["c"]),
    }
    seen = dataset.describe(rows, reviews_params(overlay))["dimensions"]
    assert seen == [{"name": "length", "low": 2, "high": 6, "multiple_of": 1}]
    declared = overlay | {"model": {"dimensions": {"length": {"high": 8, "multiple_of": 2}}}}
    found = dataset.describe(rows, reviews_params(declared))["dimensions"]
    assert found == [{"name": "length", "low": 2, "high": 8, "multiple_of": 2}]


def test_text_has_the_ids_of_its_vocabulary_and_the_sizes_that_it_is_cut_to(reviews_params):
    rows = {"train": dataset.Rows({"text": ["ab", "b"]}, np.array([0, 1]), ["x", "y"])}
    schema = dataset.describe(rows, reviews_params({"preprocess": {"max_length": 30, "multiple_of": 16}}))
    assert (schema["inputs"][0]["low"], schema["inputs"][0]["high"]) == (0, 3)
    assert schema["dimensions"] == [{"name": "length", "low": 16, "high": 32, "multiple_of": 16}]
    inputs = [{"name": "ids", "dtype": "int64", "shape": ["batch", "length"], "low": 0, "high": 2}]
    with pytest.raises(DataError, match=r"range 0\.0 … 2\.0, .* ids from 0 to 3"):
        dataset.describe(rows, reviews_params({"model": {"inputs": inputs}}))


@pytest.mark.parametrize(
    "body",
    [
        "[{'label': row['label']} for row in csv.DictReader(raw.read_text(encoding='utf-8').splitlines())]",
        "csv.DictReader(raw.read_text(encoding='utf-8').splitlines())",
    ],
)
def test_a_byte_order_mark_that_hides_a_column_is_named(tmp_path, monkeypatch, body):
    (tmp_path / "marked_reader.py").write_text(f"import csv\n\ndef read(raw):\n    return list({body})\n", encoding="utf-8")
    (tmp_path / "raw.csv").write_text("label,text\n0,a\n", encoding="utf-8-sig")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "marked_reader", raising=False)
    with pytest.raises(DataError, match=r"raw.csv' begins with a byte order mark, so let the reader open it with encoding='utf-8-sig'"):
        dataset.read_raw(settings(raw=str(tmp_path / "raw.csv"), reader="marked_reader:read", inputs=["label"], label="label"))
