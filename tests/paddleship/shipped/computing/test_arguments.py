"""Inputs by name become the arguments of forward, nested as their names say."""

import pytest

from paddleship.shipped.computing import arguments


class Model:
    def forward(self, batch, states, mask=None, *, scale=1.0):
        raise NotImplementedError

    def loose(self, *parts):
        raise NotImplementedError


def given(names, absent=(), function=Model.forward):
    return arguments.form(function, names, absent).give({name: name.upper() for name in names})


@pytest.mark.parametrize(
    ("names", "absent", "expected"),
    [
        (["batch", "states"], [], ["BATCH", "STATES"]),
        (["states", "batch"], [], ["BATCH", "STATES"]),
        (["x", "y"], [], ["X", "Y"]),
        (["batch.ids", "batch.more.mask", "states"], [], [{"ids": "BATCH.IDS", "more": {"mask": "BATCH.MORE.MASK"}}, "STATES"]),
        (["batch", "states[1]", "states[0]"], [], ["BATCH", ["STATES[0]", "STATES[1]"]]),
        (["batch", "states[0].h"], ["states[1]"], ["BATCH", [{"h": "STATES[0].H"}, None]]),
        (["batch"], ["states", "mask"], ["BATCH", None, None]),
    ],
)
def test_names_are_places_in_the_arguments(names, absent, expected):
    assert given(names, absent) == expected


def test_an_argument_that_is_left_out_keeps_its_default():
    class Wide:
        def forward(self, x, scale=2.0, mask=None, bias=None):
            raise NotImplementedError

    assert given(["x", "mask"], function=Wide.forward) == ["X", 2.0, "MASK"]


def test_where_a_name_is_no_argument_inputs_are_given_in_their_order():
    assert given(["second", "batch"]) == ["SECOND", "BATCH"]
    assert given(["b", "a"], function=Model.loose) == ["B", "A"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["x", "x.y"], "an input of its own and as one that holds others|a dict, a list, or one input"),
        (["x.y", "x"], "declare only its parts"),
        (["x.y", "x[0]"], "a dict, a list, or one input"),
        (["x[0]", "x[2]"], r"x\[1\] is missing"),
        (["x[one]"], "is not an input name"),
        (["3d"], "is not an input name"),
    ],
)
def test_names_that_contradict_each_other_are_refused(names, words):
    with pytest.raises(ValueError, match=words):
        arguments.declared(names)
