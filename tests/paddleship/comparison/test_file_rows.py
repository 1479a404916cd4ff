"""Rows of a file for a candidate: the forms, the labels, and what is refused."""

import json

import numpy as np
import pytest

from paddleship.comparison import file_rows
from paddleship.data import dataset
from paddleship.data.dataset import Rows
from paddleship.errors import BadInput
from paddleship.shipped.computing.spec import TensorSpec
from tests.made_images import candidate

VECTORS = candidate(
    inputs=(TensorSpec("x", "float32", ("batch", 2)),),
    preprocess={"kind": "tensors"},
    task="regression",
    classes=(),
    outputs=(TensorSpec("y", "float32", ("batch", 1)),),
)


def read(path, of=None, *, label=None, most=1000):
    return file_rows.read(path, of or candidate(), label=label, most=most)


@pytest.mark.parametrize("label", [None, "label", "answer"])
def test_a_table_is_read_as_clients_send_it_with_the_labels_of_its_column(tmp_path, label):
    path = tmp_path / "rows.csv"
    path.write_text(f"text,{label or 'label'},more\n123,yes,1\n 好 ,no,2\nx,yes,3\n", encoding="utf-8")
    found = read(path, label=label, most=2)
    assert found.rows.columns == {"text": ["123", " 好 "]}
    assert (found.rows.labels.tolist(), found.total, found.held_out_of) == ([1, 0], 3, None)


def test_rows_need_no_labels(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"x": [1, 2]}\n{"x": [3, 4]}\n')
    found = read(path, VECTORS)
    assert not found.rows.labelled
    assert np.array_equal(found.rows.columns["x"], [[1, 2], [3, 4]])
    assert found.rows.columns["x"][0].dtype == np.float32


@pytest.mark.parametrize(("split", "held_out_of"), [("test", "da7a"), ("train", None)])
def test_a_file_of_prepare_has_its_labels_and_says_what_it_was_held_out_of(tmp_path, split, held_out_of):
    rows = Rows({"text": ["a", "b"]}, np.array([0, 1]), ["0", "1"])
    dataset.write({split: rows}, {"data_sha256": "da7a"}, tmp_path)
    found = read(tmp_path / f"{split}.parquet", most=1)
    assert (found.rows.columns, found.rows.labels.tolist(), found.total, found.held_out_of) == ({"text": ["a"]}, [0], 2, held_out_of)


def test_a_file_of_prepare_with_other_columns_is_refused(tmp_path):
    dataset.write({"test": Rows({"body": ["a"]}, np.array([0]), ["0"])}, {"data_sha256": "da7a"}, tmp_path)
    with pytest.raises(BadInput, match=r"has no column 'text' \(it has body\)"):
        read(tmp_path / "test.parquet")


@pytest.mark.parametrize(
    ("name", "content", "label", "message"),
    [
        ("rows.txt", "x", None, r"is no file that ends in \.csv, \.jsonl, \.parquet"),
        ("rows.csv", "body\nx\n", None, "there is no column 'text'"),
        ("rows.csv", "text\nx\n", "answer", "there is no column 'answer'"),
        ("rows.csv", "text,label\nx,maybe\n", None, "row 0 of the file.*maybe"),
        ("rows.csv", 'text\n""\nx\n', None, "row 0 of the file: column 'text' is empty: fill it, or remove the row"),
        ("rows.jsonl", "{", None, "line 1 of .* is no JSON"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_reason(tmp_path, name, content, label, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(BadInput, match=message) as refused:
        read(tmp_path / name, label=label)
    assert str(refused.value).startswith(f"--rows {str(tmp_path / name)!r}")


def test_code_of_a_candidate_is_not_run_outside_its_container(tmp_path):
    evil = {"kind": "own", "column": "text", "input": "ids", "encoder": "evil:Encoder", "code": {"evil.py": "raise SystemExit('it ran')"}}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"text": "a", "label": "yes"}))
    found = read(path, candidate(preprocess=evil))
    assert (found.rows.columns, found.rows.labels.tolist()) == ({"text": ["a"]}, [1])
    assert file_rows.positions_of(candidate(preprocess=evil), found.rows) == []
    with pytest.raises(BadInput, match="runs in its container only"):
        file_rows.positions_of(candidate(preprocess=evil, task="tagging"), found.rows)
