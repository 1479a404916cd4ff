"""The prepare stage: nothing half-written, and a count of leaks that the split itself cannot hide."""

import sys

import pytest

from paddleship.config import loading
from paddleship.errors import DataError
from tasks.prepare import prepare

READER = """
import numpy
def good(raw):
    for index in range(100):
        yield {"x": [float(index), float(index % 10)], "id": index, "y": float(index)}

def nan(raw):
    for row in good(raw):
        yield {**row, "x": [float("nan"), 1.0]} if row["id"] == 9 else row

def repeated(raw):
    for row in good(raw):
        yield row
        yield {**row, "x": [int(value) for value in row["x"]]}

def sparse(raw):
    for row in good(raw):
        yield {**row, "x": None} if row["id"] % 4 == 0 else {**row, "y": None} if row["id"] == 1 else row

def numbered(raw):
    for row in good(raw):
        yield {**row, "x": [1.0, 2.0]}

def different(raw):
    random = numpy.random.default_rng(0)
    for index in range(300):
        yield {"x": random.normal(size=2).tolist(), "id": index, "y": float(index)}

def twice_nearly(raw):
    for row in different(raw):
        yield row
        yield {**row, "x": [value * (1 + 1e-6) for value in row["x"]]}

def one_class(raw):
    for row in good(raw):
        yield {**row, "y": 0}

def two_of_three(raw):
    for row in good(raw):
        yield {**row, "y": row["id"] % 2}

def breaks_off(raw):
    for row in good(raw):
        if row["id"] == 3:
            raise ValueError("the file is broken")
        yield row
"""


@pytest.fixture
def settings(tmp_path, monkeypatch):
    (tmp_path / "their_reader.py").write_text(READER)
    (tmp_path / "raw").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def of(reader, **data):
        rows = {"raw": "raw", "reader": f"their_reader:{reader}", "inputs": ["x"], "label": "y", "task": "regression"}
        return loading.parse(
            {
                "name": "x",
                "code": {"watch": "their_reader.py"},
                "data": {**rows, "validation": 0.2, "test": 0.2, **data},
                "model": {"factory": "m:build", "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 2]}]},
                "package": {"repository": "x"},
            }
        )

    yield of
    sys.modules.pop("their_reader", None)


@pytest.mark.parametrize(
    ("reader", "data", "words"),
    [
        ("nan", {}, r"row 9 of data.reader .* \(got nan\)"),
        ("one_class", {"task": "classification"}, r"one class only \(label 0\)"),
        ("one_class", {"task": "classification", "classes": ["ดี", "bad"]}, r"one class only \('ดี'\)"),
        ("breaks_off", {}, r"failed on '.*' after 3 rows \(.*broken"),
    ],
)
def test_data_that_cannot_be_used_leaves_nothing_behind(settings, tmp_path, reader, data, words):
    with pytest.raises(DataError, match=words):
        prepare(settings(reader, **data))
    assert not list(tmp_path.rglob("*.parquet"))
    assert not (tmp_path / "data/prepared").exists()


def test_repeats_in_another_type_are_dropped_and_nothing_leaks(settings):
    report = prepare(settings("repeated"))
    assert report.facts["dropped"]["repeated"] == 100
    assert (report.metrics["leaked_rows"], report.metrics["alike_rows"]) == (0, 0)


def test_dropped_rows_are_told_with_the_column_that_is_empty(settings):
    report = prepare(settings("sparse"))
    found, _ = report.findings
    assert report.headline.startswith("74 rows of 100, 0 repeats and 26 unusable rows dropped")
    assert report.metrics["unusable_rows"] == 26
    assert (found.kind, found.severity) == ("unusable-rows", "warning")
    assert "26 of 100 rows (26.0%) are dropped: 25 without a value in 'x', 1 without a value in 'y'" in found.message
    assert prepare(settings("sparse", unusable_share=0.3)).findings[0].severity == "note"


def test_held_out_rows_that_are_training_rows_to_the_model_are_told(settings):
    report = prepare(settings("numbered", inputs=["x", "id"]))
    held_out = report.metrics["validation_rows"] + report.metrics["test_rows"]
    assert report.metrics["alike_rows"] == held_out > 0
    assert report.headline.endswith(f"{held_out} held-out rows look the same to the model as training rows")


def test_near_repeats_across_the_parts_are_counted_shown_and_above_the_share_a_warning(settings):
    report = prepare(settings("twice_nearly"))
    held_out = report.metrics["validation_rows"] + report.metrics["test_rows"]
    assert 10 < report.metrics["near_repeat_rows"] < held_out
    assert f"{report.metrics['near_repeat_rows']} held-out rows nearly repeat training rows" in report.headline
    assert len(report.facts["near_repeats"]["examples"]) == 3
    assert [(item.kind, item.severity) for item in report.findings] == [("near-repeat", "warning")]
    assert prepare(settings("twice_nearly", near_repeat_share=1.0)).findings[0].severity == "note"


def test_rows_that_are_all_different_have_no_near_repeats(settings):
    report = prepare(settings("different"))
    assert report.metrics["near_repeat_rows"] == 0
    assert report.findings == []


def test_a_declared_class_without_a_row_is_a_warning_for_training_and_test(settings):
    report = prepare(settings("two_of_three", task="classification", classes=["a", "b", "c"]))
    absent = [item for item in report.findings if item.kind == "absent-class"]
    assert [item.severity for item in absent] == ["warning", "warning"]
    assert all(item.message.endswith(": 'c'") for item in absent)
    report = prepare(settings("two_of_three", task="classification", classes=["a", "b"]))
    assert not [item for item in report.findings if item.kind == "absent-class"]


def test_classes_of_a_file_are_those_of_a_list_and_part_of_what_was_prepared(settings, tmp_path):
    """So that the stages after it run again when a line of the file changes."""
    seal, rows = tmp_path / "data/prepared/seal.json", tmp_path / "data/prepared/train.parquet"
    prepare(settings("two_of_three", task="classification", classes=["no", "yes", "never"]))
    listed = (seal.read_text(), rows.read_bytes())
    file = tmp_path / "raw_folder" / "classes.txt"
    file.parent.mkdir()
    file.write_text("no\nyes\nnever\n")
    of_file = settings("two_of_three", task="classification", raw="raw_folder", classes={"file": "raw_folder/classes.txt"})
    prepare(of_file)
    assert (seal.read_text(), rows.read_bytes()) == listed
    file.write_text("no\nyes\nother\n")
    prepare(of_file)
    assert (seal.read_text() != listed[0], rows.read_bytes() == listed[1]) == (True, True)
