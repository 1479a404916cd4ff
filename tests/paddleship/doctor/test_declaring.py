"""What the command line declares: every slip is one line that quotes it and shows the form."""

import re

import pytest

from paddleship.doctor.declaring import parse_input, parse_model, parse_sizes
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
        ("ids:int63[batch]", "must be 'float32'"),
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


def test_a_first_dimension_may_be_fixed_and_a_number_has_none():
    assert parse_input("image:float32[3,height,width]").shape == [3, "height", "width"]
    assert parse_input("step:int64[]=0..9").shape == []


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
        ("m:build", ["x:float32[batch]", "adj:float32[batch,batch]"], "{}", "the batch must be one axis of input 'adj'"),
    ],
)
def test_a_slip_in_a_model_is_explained(factory, inputs, kwargs, words):
    with pytest.raises(ParamsError, match=re.escape(words)):
        parse_model(factory, inputs, kwargs)


def test_an_end_of_a_range_may_be_a_dimension_and_a_dimension_may_have_sizes():
    assert parse_input("steps:int64[batch]=1..length").high == "length"
    assert parse_input("last:int64[batch]=0..length-1").spec().limits({"length": 9}) == (0, 8)
    model = parse_model("m:build", ["x:float32[batch,length]", "steps:int64[batch]=1..length"], "{}", ["length=32..512/32"])
    assert [str(rule) for rule in model.rules] == ["32 … 512 in multiples of 32"]
    assert parse_sizes(["length=4.."])["length"].high is None


@pytest.mark.parametrize(
    ("dimensions", "words"),
    [
        (["length"], "--dimension 'length' does not parse"),
        (["length=9..4"], "(got 9 … 4)"),
        (["size=1..4"], "(got 'size'): the inputs have length"),
    ],
)
def test_a_slip_in_a_dimension_is_quoted(dimensions, words):
    with pytest.raises(ParamsError) as raised:
        parse_model("m:build", ["x:float32[batch,length]"], "{}", dimensions)
    assert words in str(raised.value)


def test_a_bound_that_names_no_dimension_is_explained():
    with pytest.raises(ParamsError, match="high of input 'n' must name a dynamic dimension"):
        parse_model("m:build", ["n:int64[batch]=1..length"], "{}")
