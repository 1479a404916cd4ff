"""Methods of `paddle.nn.Layer` that a user's class overrides."""

import paddle
import pytest

from paddleship.errors import ModelError
from paddleship.model import overrides


class Plain(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.net = paddle.nn.Sequential(paddle.nn.Linear(2, 2), paddle.nn.BatchNorm1D(2))
        self.register_buffer("scale", paddle.ones([1]), persistable=False)


class Renamed(Plain):
    def state_dict(self, *given, **named):
        return {f"model.{name}": tensor for name, tensor in super().state_dict(*given, **named).items()}


class Hidden(Plain):
    def named_parameters(self, *given, **named):
        raise AttributeError("names are hidden")


class Sizes(Plain):
    def named_buffers(self, *given, **named):
        return [("size", 3)]


@pytest.mark.parametrize("factory", [Plain, Renamed])
def test_a_layer_that_lists_its_tensors_passes(factory):
    overrides.check(factory())


@pytest.mark.parametrize(("factory", "words"), [(Hidden, "names are hidden"), (Sizes, "it lists something else")])
def test_a_layer_that_does_not_list_its_tensors_is_refused_at_the_line_of_the_override(factory, words):
    with pytest.raises(ModelError, match=words) as refused:
        overrides.check(factory())
    assert refused.value.where.startswith(__file__)
