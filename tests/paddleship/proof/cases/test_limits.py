"""The ends of what a server takes are asked: by a real row where there is one, else by one made of a real row."""

import numpy as np
import pytest

from paddleship.data import dataset
from paddleship.proof.cases import limits
from paddleship.shipped.computing.preprocess import build
from paddleship.shipped.computing.spec import Dimension, TensorSpec

ROWS = TensorSpec("rows", "float32", ("batch", "length", 2))
STEPS = TensorSpec("steps", "int64", ("batch",), 1, "length")
SPECS = (ROWS, STEPS)


def example(length, steps):
    return {"rows": np.arange(2 * length, dtype=np.float32).reshape(length, 2), "steps": np.int64(steps)}


@pytest.fixture
def prepared(tmp_path):
    """Held-out rows of 3 to 5, training rows of 2 to 7."""
    for split, lengths in {"train": (2, 4, 7), "validation": (4,), "test": (3, 5)}.items():
        columns = {"rows": [example(length, 1)["rows"] for length in lengths], "steps": [np.int64(1)] * len(lengths)}
        rows = dataset.Rows(columns, np.zeros(len(lengths)), [str(length) for length in lengths])
        dataset.write({split: rows}, {}, tmp_path)
    return tmp_path


def made(prepared, rule, examples):
    return limits.rows(prepared, build({}, SPECS), SPECS, [rule], examples)


def test_ends_that_held_out_rows_reach_need_no_other_row(prepared):
    assert made(prepared, Dimension("length", 3, 5), [example(3, 1), example(5, 1)]) == {}


def test_an_end_that_another_part_reaches_is_asked_by_its_row(prepared):
    found = made(prepared, Dimension("length", 2, 7), [example(3, 3), example(5, 5)])
    assert list(found) == ["smallest length (2)", "largest length (7)"]
    assert found["largest length (7)"]["rows"].tolist() == example(7, 1)["rows"].tolist()
    assert found["largest length (7)"]["steps"] == 1


def test_an_end_that_no_row_reaches_is_asked_by_the_nearest_row_repeated_or_cut(prepared):
    found = made(prepared, Dimension("length", 1, 12, 1), [example(3, 3), example(5, 5)])
    assert found["largest length (12)"]["rows"][:, 0].tolist() == [0, 2, 4, 6, 8, 0, 2, 4, 6, 8, 0, 2]
    assert found["largest length (12)"]["steps"] == 5
    assert found["smallest length (1)"]["rows"].shape == (1, 2)
    assert found["smallest length (1)"]["steps"] == 1  # 3 would be beyond the row


def test_the_largest_size_is_the_largest_multiple_in_range(prepared):
    found = made(prepared, Dimension("length", 1, 100, 32), [example(3, 3)])
    assert list(found) == ["smallest length (32)", "largest length (96)"]


def test_text_is_made_as_long_as_a_client_may_send_it(prepared):
    ids = TensorSpec("ids", "int64", ("batch", "length"), 0, 3)
    config = {"kind": "characters", "column": "text", "input": "ids", "vocabulary": ["a", "b"], "max_length": 30, "multiple_of": 16}
    text = build({**config, "unicode_form": None}, [ids])
    found = limits.rows(prepared, text, [ids], [Dimension("length", 16, 32, 16)], text.encode({"text": ["ab"]}))
    assert text.collate([found["largest length (32)"]])["ids"].tolist() == [[2, 3] * 16]


def test_text_in_a_column_of_the_name_of_its_input_is_no_row_of_the_input(tmp_path):
    for split in dataset.SPLITS:
        dataset.write({split: dataset.Rows({"ids": ["ab"]}, np.zeros(1), ["1"])}, {}, tmp_path)
    ids = TensorSpec("ids", "int64", ("batch", "length"), 0, 3)
    text = build({"inputs": {"ids": {"kind": "characters", "column": "ids", "vocabulary": ["a", "b"], "multiple_of": 4}}}, [ids])
    found = limits.rows(tmp_path, text, [ids], [Dimension("length", 4, 8, 4)], text.encode({"ids": ["ab"]}))
    assert text.collate([found["largest length (8)"]])["ids"].tolist() == [[2, 3] * 4]
