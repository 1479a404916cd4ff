"""Whether model.inputs declares the inputs of an exported program."""

from pathlib import Path

import pytest

from paddleship.config.sections.model import Input
from paddleship.errors import ModelError
from paddleship.model.exported_file import declared

PROGRAM = [{"name": "x", "dtype": "float32", "shape": [-1, 3, 8, -1]}]
LINES = "write inputs: [{name: x, dtype: float32, shape: [batch, 3, 8, x_3]}]"


def inputs(name="x", dtype="float32", shape=("batch", 3, 8, "width")):
    return [Input(name=name, dtype=dtype, shape=list(shape))]


def test_inputs_of_its_names_dtypes_and_fixed_sizes_are_accepted_and_dynamic_ones_may_be_fixed():
    declared.require(inputs(), PROGRAM, Path("m.json"))
    declared.require(inputs(shape=("batch", 3, 8, 16)), PROGRAM, Path("m.json"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "y"}, "are y, and those of 'm.json' are x"),
        ({"dtype": "int64"}, "declare 'x' as int64, and 'm.json' takes float32"),
        ({"shape": ("batch", 64)}, "declare 'x' with 2 dimensions, and 'm.json' takes 4"),
        ({"shape": ("batch", 3, 9, "width")}, "declare 9 in dimension 2 of 'x', and 'm.json' takes 8"),
        ({"shape": ("batch", 3, "height", 16)}, "declare 'height' in dimension 2 of 'x', and 'm.json' takes 8"),
    ],
)
def test_inputs_that_contradict_the_program_are_refused_with_the_lines_to_write(change, message):
    with pytest.raises(ModelError) as refused:
        declared.require(inputs(**change), PROGRAM, Path("m.json"))
    assert str(refused.value) == f"model.inputs {message}: {LINES}"


def test_a_program_with_one_batch_size_says_so():
    with pytest.raises(ModelError, match=r"declare any batch, and 'm.json' takes batches of 1 only; export it with a dynamic batch"):
        declared.require(inputs(), [PROGRAM[0] | {"shape": [1, 3, 8, -1]}], Path("m.json"))
