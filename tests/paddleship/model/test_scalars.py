"""Arithmetic with Python numbers: a traced program computes what eager does, to the bit."""

import numpy as np
import paddle
import pytest

from paddleship.model import building
from paddleship.shipped.computing.spec import TensorSpec


class Arithmetic(paddle.nn.Layer):
    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, x):
        if self.what == "divide":
            return x / 5.0, x / 3, 5.0 / x, x / np.float64(7.0)
        if self.what == "power":
            return x**2, x**0.5, x**3.0, 2.0 ** (x / 50)
        if self.what == "integers":
            return x.astype("int64") / 7, x.astype("int32") / 7.0, x.astype("int64") ** 2, x.astype("int64") // 3
        if self.what == "wide":
            return x.astype("float64") / 5.0, x.astype("float64") ** 3
        return x / x.mean(), x ** x.clip(0, 2), x - 0.1, x % 3.0


@pytest.mark.parametrize("what", ["divide", "power", "integers", "wide", "tensors"])
def test_a_program_answers_as_eager_to_the_bit(what):
    rows = paddle.to_tensor(np.random.default_rng(5).uniform(0.5, 200, 2000).astype("float32"))
    layer = Arithmetic(what)
    expected = [answer.numpy() for answer in layer(rows)]
    program = building.to_static(Arithmetic(what), [TensorSpec("x", "float32", ("batch",))])
    for number, (answer, eager) in enumerate(zip(program(rows), expected, strict=True)):
        assert answer.numpy().dtype == eager.dtype, number
        np.testing.assert_array_equal(answer.numpy(), eager, err_msg=f"{what}, number {number}")
