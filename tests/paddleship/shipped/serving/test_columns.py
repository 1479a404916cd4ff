"""Decoded tensors become columns that fit the inputs of a model, whatever decoded them."""

from dataclasses import dataclass

import numpy as np
import pytest

from paddleship.errors import RequestError
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.shipped.serving.columns import check

SPECS = (TensorSpec("x", "float32", ("batch", 2)), TensorSpec("text", "str", ("batch",)))


@dataclass
class Decoded:
    """A tensor as a binary transport has it: data that need no more decoding."""

    name: str
    datatype: str
    column: object

    def decode(self):
        return self.column


class Undecodable(Decoded):
    def decode(self):
        raise AssertionError("data of a request that is refused by its names and types")


X, TEXT = Decoded("x", "FP32", np.ones((2, 2), np.float32)), Decoded("text", "BYTES", ["a", "b"])


def test_tensors_become_columns_by_input_name_and_are_not_copied():
    columns = check([TEXT, X], SPECS, max_batch=2)
    assert columns["x"] is X.column
    assert columns["text"] is TEXT.column


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ([Undecodable("z", "FP32", None), Undecodable("x", "FP32", None)], "there is no input 'z': this model takes x, text"),
        ([Undecodable("x", "FP32", None)] * 2, "input 'x' is given twice"),
        ([Undecodable("x", "FP32", None)], "input 'text' is missing"),
        ([Undecodable("x", "FP64", None), TEXT], "input 'x' has the datatype 'FP64': send FP32"),
        ([Decoded("x", "FP32", np.ones(2, np.float32)), TEXT], "has the shape [2], the model takes [-1, 2]"),
        ([Decoded("x", "FP32", np.ones((2, 0), np.float32)), TEXT], "its rows are empty"),
        ([Decoded("x", "FP32", np.ones((3, 2), np.float32)), TEXT], "different numbers of rows (2, 3)"),
        ([Decoded("x", "FP32", np.ones((0, 2), np.float32)), Decoded("text", "BYTES", [])], "no rows"),
        ([Decoded("x", "FP32", np.ones((3, 2), np.float32)), Decoded("text", "BYTES", ["a"] * 3)], "has 3 rows, this server takes 1 to 2"),
        ([X, Decoded("text", "BYTES", ["a", "\u0301" * 2000])], "combining marks"),
        ([X, Decoded("text", "BYTES", ["a", None])], "input 'text' must be text (got NoneType): give a string"),
    ],
)
def test_what_does_not_fit_is_refused_before_more_of_it_is_decoded(tensors, words):
    with pytest.raises(RequestError, match=words.replace("[", r"\[").replace("(", r"\(").replace(")", r"\)")):
        check(tensors, SPECS, max_batch=2)
