"""Rows that are padded up to round sizes for a program of any size, and answers that are cut back."""

import numpy as np
import pytest

from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes.bucketed import Rounded
from paddleship.shipped.computing.spec import TensorSpec

SPECS = (TensorSpec("ids", "int64", ("batch", "length"), 0, 9, 7), TensorSpec("x", "float32", ("batch", 3)))
OUTPUTS = (TensorSpec("scores", "float32", ("batch", "length")), TensorSpec("total", "float32", ("batch",)))


class Program:
    """Notes what it is given."""

    def run(self, inputs):
        self.given = inputs
        return {"scores": inputs["ids"].astype(np.float32), "total": inputs["x"].sum(1)}


@pytest.fixture
def rounded():
    shapes = tuple({"ids": [2, length], "x": [2, 3]} for length in (5, 33))
    candidate = Candidate("m", "m", "openvino", "float32", 1, SPECS, OUTPUTS, {}, "", "regression", warm_shapes=shapes)
    return Rounded(candidate, Program(), 16)


def ask(model, length):
    return model.run({"ids": np.ones((2, length), np.int64), "x": np.ones((2, 3), np.float32)})


@pytest.mark.parametrize(("length", "given"), [(5, 16), (16, 16), (17, 32), (33, 33), (40, 40)])
def test_rows_are_padded_to_the_next_multiple_and_never_beyond_what_export_has_seen(rounded, length, given):
    answer = ask(rounded, length)
    assert rounded._program.given["ids"].shape == (2, given)
    assert set(rounded._program.given["ids"][:, length:].flat) <= {SPECS[0].pad}
    assert answer["scores"].tolist() == [[1.0] * length] * 2
    assert answer["total"].tolist() == [3.0, 3.0]


def test_nothing_is_padded_where_export_saw_no_sizes():
    candidate = Candidate("m", "m", "openvino", "float32", 1, SPECS, OUTPUTS, {}, "", "regression")
    model = Rounded(candidate, Program(), 16)
    ask(model, 5)
    assert model._program.given["ids"].shape == (2, 5)
