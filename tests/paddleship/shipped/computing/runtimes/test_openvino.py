"""OpenVINO gives equal values in ONNX's order, where that takes little time."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import openvino
from paddleship.shipped.computing.spec import TensorSpec
from tests import small_onnx


def write(folder, size, count):
    """A program that takes the `count` largest of each row of this size."""
    node = helper.make_node("TopK", ["x", "k"], ["values", "indices"], axis=1)
    outputs = [("values", None, TensorProto.FLOAT), ("indices", None, TensorProto.INT64)]
    return small_onnx.write(folder / "model.onnx", [node], [("x", ["batch", size])], outputs, weights={"k": np.array([count])})


@pytest.mark.parametrize(("size", "count"), [(4, 3), (100, 100), (1000, 10)])
def test_the_first_of_equal_values_comes_first(tmp_path, size, count):
    write(tmp_path, size, count)
    outputs = tuple(TensorSpec(name, dtype, ("batch", count)) for name, dtype in (("values", "float32"), ("indices", "int64")))
    inputs = (TensorSpec("x", "float32", ("batch", size)),)
    candidate = Candidate("m", "m", "openvino", "float32", 1, inputs, outputs, {}, "", "regression", sources={"values": 0, "indices": 1})
    x = np.random.default_rng(0).integers(0, 2, (5, size)).astype(np.float32)
    answer = openvino.load(tmp_path, candidate).run({"x": x})
    np.testing.assert_array_equal(answer["indices"], np.argsort(-x, axis=1, kind="stable")[:, :count])


@pytest.mark.parametrize(("size", "stable"), [(100, True), (8400, False), ("length", False)])
def test_a_long_sort_stays_fast(tmp_path, size, stable):
    program = openvino.module().Core().read_model(str(write(tmp_path, size, 100)))
    openvino._order_equal_values(program)
    (sort,) = (operator for operator in program.get_ops() if operator.get_type_name() == "TopK")
    assert sort.get_attributes()["stable"] is stable
