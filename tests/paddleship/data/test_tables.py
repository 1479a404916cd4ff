"""data.reader: csv, jsonl and parquet, files that need no code."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from paddleship.config import loading
from paddleship.data import dataset
from paddleship.data.row_validation import RowValidator
from paddleship.errors import DataError

CSV = "\ufeffname,x0,x1,price,label\nA 1,1,2.5,3,high\n007,-3,.5,1e2,low\n,4,5,6,low\n9,7,,8,high\n"


@pytest.fixture
def params(tmp_path):
    """Params of a model that takes a text, a vector and a number, with this reader of this file."""

    def of(reader="csv", raw="raw.csv", **kwargs):
        inputs = [("ids", "int64", ["batch", "length"]), ("x", "float32", ["batch", 2]), ("price", "float32", ["batch"])]
        kinds = {"ids": {"kind": "characters", "column": "name"}, "x": {"kind": "tensors"}, "price": {"kind": "tensors"}}
        return loading.parse(
            {
                "name": "x",
                "code": {"watch": "."},
                "data": {
                    "raw": str(tmp_path / raw), "reader": reader, "kwargs": kwargs, "inputs": ["name", "x", "price"],
                    "task": "classification", "classes": ["low", "high"],
                },
                "preprocess": {"inputs": kinds},
                "model": {
                    "factory": "a:b",
                    "inputs": [{"name": name, "dtype": dtype, "shape": shape} for name, dtype, shape in inputs],
                },
                "package": {"repository": "x"},
            }
        )  # fmt: skip

    return of


def read(params):
    return dataset.read_raw(params.data, RowValidator.of(params).text_columns)


VECTORS = {"vectors": {"x": ["x0", "x1"]}}


def test_cells_are_text_where_the_model_reads_text_numbers_elsewhere_and_none_where_they_are_empty(params, tmp_path):
    (tmp_path / "raw.csv").write_text(CSV, encoding="utf-8")
    rows = read(params(**VECTORS))
    assert [row["name"] for row in rows] == ["A 1", "007", None, "9"]
    assert [row["x"] for row in rows] == [[1, 2.5], [-3, 0.5], [4, 5], [7, None]]
    assert [row["price"] for row in rows] == [3, 100.0, 6, 8]
    assert [row["label"] for row in rows] == ["high", "low", "low", "high"]


def test_such_rows_are_cleaned_as_those_of_a_reader_in_python_are(params, tmp_path):
    lines = "".join(f"n{number},{number},1,{number},{'high' if number % 2 else 'low'}\n" for number in range(60))
    (tmp_path / "raw.csv").write_text(CSV + lines, encoding="utf-8")
    values = params(**VECTORS)
    splits, counts = dataset.clean(read(values), values.data, RowValidator.of(values))
    assert (counts.rows, counts.kept, dict(counts.empty)) == (64, 62, {"name": 1, "x1": 1})
    assert splits["train"].columns["x"][0].dtype == np.float32


@pytest.mark.parametrize("kind", ["tensors", "numbers"])
@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "b,1,cheap,3,low",
            r"row 4 of data.reader: column 'x1' does not fit model.inputs: input 'x' cannot be read as \w+ \(got 'cheap'\)",
        ),
        ("b,1e999,2,3,low", r"row 4 of data.reader: column 'x0' does not fit model.inputs: input 'x' must be finite numbers"),
        ("b,nan,cheap,3,low", "row 4 of data.reader: column 'x0' does not fit model.inputs: input 'x' "),
        ("b,1,2,cheap,low", "row 4 of data.reader does not fit model.inputs: input 'price' cannot be read as float32"),
    ],
)
def test_a_refused_cell_of_a_list_is_named_by_its_column(params, tmp_path, kind, line, words):
    (tmp_path / "raw.csv").write_text(f"{CSV}{line}\n", encoding="utf-8")
    values = params(**VECTORS)
    values.preprocess.inputs["x"] |= {"kind": kind} | ({"log": False, "missing": "drop"} if kind == "numbers" else {})
    with pytest.raises(DataError, match=words) as refused:
        dataset.clean(read(values), values.data, RowValidator.of(values))
    advice = "empty the cell" if "column" in words else "return None there to drop the row"
    assert str(refused.value).endswith(f"or {advice}")


def test_values_that_the_dtype_makes_equal_are_named_by_their_column(params, tmp_path):
    lines = "".join(f"n{number},{number % 3},{1_700_000_000 + number},3,low\n" for number in range(200))
    (tmp_path / "raw.csv").write_text(f"name,x0,x1,price,label\n{lines}", encoding="utf-8")
    values = params(**VECTORS)
    with pytest.raises(DataError, match="column 'x1' has 200 different values, of which float32 keeps 3"):
        dataset.clean(read(values), values.data, RowValidator.of(values))


def test_a_label_of_several_columns_lacks_the_one_with_an_empty_cell(params, tmp_path):
    lines = "".join(f"n{number},{number},{'' if number == 5 else 1},{number},low\n" for number in range(60))
    (tmp_path / "raw.csv").write_text(f"name,x0,x1,price,label\n{lines}", encoding="utf-8")
    values = params(vectors={"x": ["x0"], "y": ["price", "x1"]})
    data = values.data.model_copy(update={"inputs": ["name"], "label": "y", "task": "regression", "classes": []})
    _, counts = dataset.clean(dataset.read_raw(data, {"name"}), data)
    assert (counts.kept, dict(counts.empty)) == (59, {"x1": 1})


def test_a_word_in_a_column_of_numbers_is_refused_with_row_column_and_value(params, tmp_path):
    (tmp_path / "raw.csv").write_text(CSV + "b,1,2,cheap,low\n", encoding="utf-8")
    values = params(**VECTORS)
    with pytest.raises(DataError, match=r"row 4 .*price.*'cheap'"):
        dataset.clean(read(values), values.data, RowValidator.of(values))


def test_texts_that_stand_for_an_empty_cell_are_missing_in_every_column_and_counted(params, tmp_path):
    lines = ["A,NA,1, -999 ,high", "NA,1,2,3,low", "NAN,1,2,?,high", *(f"B{number},1,2,3,low" for number in range(40))]
    (tmp_path / "raw.csv").write_text("\n".join(["name,x0,x1,price,label", *lines]), encoding="utf-8")
    values = params(missing=["NA", "?", "-999"], **VECTORS)
    rows = read(values)
    assert [row["name"] for row in rows[:4]] == ["A", None, "NAN", "B0"]
    assert [row["x"] for row in rows[:4]] == [[None, 1], [1, 2], [1, 2], [1, 2]]
    assert [row["price"] for row in rows[:4]] == [None, 3, None, 3]
    _, counts = dataset.clean(rows, values.data)
    assert dict(counts.empty) == {"x0": 1, "name": 1, "price": 1}


@pytest.mark.parametrize(
    ("text", "kwargs", "message"),
    [
        ("name,x,price,label\n", {"missing": "NA"}, "data.kwargs.missing must be a list of texts \\(got 'NA'\\): write missing:"),
        ("name,x,price,label\n", {"missing": [-999]}, "data.kwargs.missing must be a list of texts"),
        ("name,x,price,label\n1,2,3\n", {}, "line 2 of '.*raw.csv' has 3 cells, and the header 4"),
        ("a,a\n1,2\n", {}, "has two columns called 'a', those of vectors included: rename one"),
        ("a,b\n1,2\n", VECTORS, "data.kwargs.vectors names the column 'x0', and '.*raw.csv' has a, b"),
        ("a,b\n1,2\n", {}, "there is no column 'name': '.*raw.csv' has a, b"),
        ("name,x,price,label\na,1,,\n", {"lists": {"y": "|"}}, "data.kwargs.lists names the column 'y'"),
        ("name,x,price,label\na,1,,\n", {"lists": ["x"]}, "data.kwargs.lists must be a mapping of columns"),
        ("name,x,price,label\na,1||3,,\n", {"lists": {"x": "|"}}, "line 2 of '.*raw.csv' has an empty part in the column 'x'"),
        ("name,x,price,label\n", {"vectors": {"x": ["price"]}}, "has two columns called 'x', those of vectors included"),
        ("name,x,price,label\n", {"seperator": ";"}, "data.kwargs has 'seperator', which the reader csv does not know"),
        ('name,x,price,label\n"a"b,1,2,3\n', {}, "line 2 of '.*raw.csv' is no CSV"),
        ("name,x,price,label\n", {}, "found no rows in"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_line(params, tmp_path, text, kwargs, message):
    (tmp_path / "raw.csv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message) as refused:
        read(params(**kwargs))
    assert len(str(refused.value).splitlines()) == 1


def test_another_delimiter_encoding_and_lists_in_cells_and_all_files_of_a_folder(params, tmp_path):
    (tmp_path / "raw").mkdir()
    for number, name in enumerate(("b", "a")):
        (tmp_path / "raw" / f"{name}.csv").write_text(f"name;x;price;label\nü{name};1 2;{number};low\n", encoding="latin-1")
    rows = read(params(raw="raw", delimiter=";", encoding="latin-1", lists={"x": " "}))
    assert [row["name"] for row in rows] == ["üa", "üb"]
    assert rows[0]["x"] == [1, 2]


def test_lines_of_json_and_parquet_keep_their_types(params, tmp_path):
    rows = [{"name": f"n{number}", "x": [1.5, number], "price": number, "label": "low"} for number in range(3)]
    (tmp_path / "raw.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n", encoding="utf-8")
    assert read(params("jsonl", "raw.jsonl")) == rows
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "raw.parquet")
    assert read(params("parquet", "raw.parquet")) == rows


@pytest.fixture
def ids(tmp_path):
    """Params of a model of two ids, with this reader of this file."""

    def of(reader, **kwargs):
        data = {"raw": str(tmp_path / f"raw.{reader}"), "reader": reader, "kwargs": kwargs, "inputs": ["x"], "label": "y"}
        data |= {"task": "regression"}
        model = {"factory": "a:b", "inputs": [{"name": "x", "dtype": "int64", "shape": ["batch", 2]}]}
        return loading.parse({"name": "x", "code": {"watch": "."}, "data": data, "model": model, "package": {"repository": "x"}})

    return of


def write_ids(path, cells):
    """A table of two ids for each row, as they are written in each form."""
    if path.suffix == ".csv":
        path.write_text("x0,x1,y\n" + "".join(f"{one},{other},1\n" for one, other in cells))
    elif path.suffix == ".jsonl":
        path.write_text("".join(f'{{"x": [{one}, {other}], "y": 1}}\n' for one, other in cells))
    else:
        values = [[json.loads(one), json.loads(other)] for one, other in cells]
        kind = pa.float64() if any(isinstance(value, float) for row in values for value in row) else pa.int64()
        parquet.write_table(pa.table({"x": pa.array(values, pa.list_(kind)), "y": [1.0] * len(cells)}), path)


@pytest.mark.parametrize("reader", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("number", ["9007199254740993.0", "9007199254740993.5", "9.007199254740993e15"])
def test_an_id_that_loses_digits_as_a_float_is_refused_with_its_row(ids, tmp_path, reader, number):
    write_ids(tmp_path / f"raw.{reader}", [("1", "2"), ("3", number)])
    values = ids(reader, **({"vectors": {"x": ["x0", "x1"]}} if reader == "csv" else {}))
    with pytest.raises(DataError, match=rf"^row 1 of data.reader.*loses digits \(read as {int(float(number))}\): write it as a whole"):
        dataset.clean(dataset.read_raw(values.data, ()), values.data, RowValidator.of(values))


@pytest.mark.parametrize(("reader", "one"), [("csv", "5.0"), ("jsonl", "5.0"), ("parquet", "5")])
def test_an_id_stays_in_full_beside_a_number_with_a_fraction_of_zero(ids, tmp_path, reader, one):
    write_ids(tmp_path / f"raw.{reader}", [(str(2**53 + 1 + 2 * number), one) for number in range(60)])
    values = ids(reader, **({"vectors": {"x": ["x0", "x1"]}} if reader == "csv" else {}))
    splits, counts = dataset.clean(dataset.read_raw(values.data, ()), values.data, RowValidator.of(values))
    assert counts.repeated == 0
    kept = sorted(int(row[0]) for part in splits.values() for row in part.columns["x"])
    assert kept == [2**53 + 1 + 2 * number for number in range(60)]


@pytest.mark.parametrize(
    ("reader", "content", "message"),
    [
        ("jsonl", b'{"name": "a"}\n{"name"\n', "line 2 of '.*raw' is no JSON"),
        ("jsonl", b"3\n", "line 1 of '.*raw' is no object"),
        ("parquet", b"PAR1", "is no Parquet file, or it is incomplete"),
        ("csv", b"\xff\xfe", "'utf-8' codec can't decode"),
    ],
)
def test_a_file_of_another_form_is_one_line(params, tmp_path, reader, content, message):
    (tmp_path / "raw").write_bytes(content)
    with pytest.raises(DataError, match=message) as refused:
        read(params(reader, "raw"))
    assert len(str(refused.value).splitlines()) == 1


def test_each_file_of_a_folder_must_have_the_columns(params, tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.csv").write_text("name,x,price,label\na,1,2,low\n")
    (tmp_path / "raw" / "b.CSV").write_text("name,X,price,label\na,1,2,low\n")
    with pytest.raises(DataError, match=r"there is no column 'x': '.*b.CSV' has name, X"):
        read(params(raw="raw"))


@pytest.mark.parametrize("text", ["1_5", "١٢", "1,5", "0x10"])
def test_text_that_python_but_no_table_reads_as_a_number_is_refused(params, tmp_path, text):
    (tmp_path / "raw.csv").write_text(CSV + f'b,1,2,"{text}",low\n', encoding="utf-8")
    values = params(**VECTORS)
    with pytest.raises(DataError, match=r"row 4 .*price"):
        dataset.clean(read(values), values.data, RowValidator.of(values))


@pytest.mark.parametrize(("classes", "label"), [(["cat", "dog"], 1), (["0", "1"], "1")])
def test_numbers_as_labels_are_ids_unless_classes_are_called_so(params, tmp_path, classes, label):
    (tmp_path / "raw.csv").write_text("name,x0,x1,price,label\na,1,2,3,1\n")
    values = params(**VECTORS)
    values = values.model_copy(update={"data": values.data.model_copy(update={"classes": classes})})
    assert read(values)[0]["label"] == label


def test_an_input_that_no_encoder_reads_stays_text():
    data = loading.parse({
        "name": "x", "code": {"watch": "."}, "model": {"factory": "a:b", "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch"]}]},
        "data": {"raw": "r", "reader": "csv", "inputs": ["x", "id"], "task": "regression"}, "package": {"repository": "x"},
    })  # fmt: skip
    assert RowValidator.of(data).text_columns == {"id"}
