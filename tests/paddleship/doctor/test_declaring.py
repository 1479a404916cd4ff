"""What the command line declares: every slip is one line that quotes it and shows the form."""

import re

import pytest

from paddleship.doctor.declaring import parse_input, parse_model
from paddleship.errors import ParamsError


def test_an_input_names_dtype_dimensions_and_range():
    parsed = parse_input("ids:int64[batch,length,4]=0..4095")
    assert (parsed.name, parsed.dtype, parsed.shape, parsed.low, parsed.high) == ("ids", "int64", ["batch", "length", 4], 0, 4095)


def test_a_range_may_be_left_out_or_lie_below_zero():
    assert parse_input("x:float32[batch]").low is None
    assert parse_input("x:float32[batch,3]=-1.5..2e1").low == -1.5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ids", "does not parse"),
        ("ids:int64", "does not parse"),
        ("ids:int64[batch]=3", "does not parse"),
        ("ids:int63[batch]", "input should be 'float32'"),
        ("ids:int64[4,length]", "the first dimension must be dynamic"),
        ("ids:int64[batch,0]", "has the dimension '0'"),
        ("ids:int64[batch,]", "has the dimension ''"),
        ("ids:int64[batch]=9..1", "empty range"),
    ],
)
def test_a_slip_in_an_input_is_quoted(text, words):
    with pytest.raises(ParamsError, match=r"--input '") as raised:
        parse_input(text)
    assert words in str(raised.value).lower() or words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_inputs_may_be_parts_of_arguments_and_none():
    model = parse_model("m:build", ["batch.ids:int64[batch,length]=0..9", "states[0]:float32[batch,8]", "mask=none"], "{}")
    assert [item.name for item in model.inputs] == ["batch.ids", "states[0]"]
    assert model.absent == ["mask"]


@pytest.mark.parametrize(
    ("factory", "inputs", "kwargs", "words"),
    [
        ("m:build", [], "{}", "has no declared input"),
        ("m:build", ["x:float32[batch]"] * 2, "{}", "declared twice"),
        ("m:build", ["x:float32[batch]", "x=none"], "{}", "declared twice"),
        ("m:build", ["x=none"], "{}", "has no declared input"),
        ("m:build", ["x[1]:float32[batch]"], "{}", "x[0] is missing"),
        ("m:build", ["x.a:float32[batch]", "x[0]:float32[batch]"], "{}", "a dict, a list, or one input"),
        ("m:build", ["x:float32[batch]"], "{", "is not JSON"),
        ("m:build", ["x:float32[batch]"], "3", "must be an object"),
        ("m.build", ["x:float32[batch]"], "{}", "write module:factory"),
    ],
)
def test_a_slip_in_a_model_is_explained(factory, inputs, kwargs, words):
    with pytest.raises(ParamsError, match=re.escape(words)):
        parse_model(factory, inputs, kwargs)
