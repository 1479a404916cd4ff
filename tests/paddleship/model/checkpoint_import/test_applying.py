"""Weights that a layer is given: tied ones, and those of a safetensors file without a framework."""

import numpy as np
import paddle
import pytest
from safetensors.numpy import save_file

from paddleship.errors import ModelError
from paddleship.model.checkpoint_import import files, source
from paddleship.model.checkpoint_import.applying import apply
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.spec import TensorSpec


class Tied(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.one = paddle.nn.Linear(2, 2, bias_attr=False)
        self.two = paddle.nn.Linear(2, 2, bias_attr=False)
        self.two.weight = self.one.weight


def test_tied_weights_must_be_equal_in_the_file():
    ones, twos = np.ones((2, 2), np.float32), np.full((2, 2), 2, np.float32)
    layer = Tied()
    apply(layer, {"one.weight": twos, "two.weight": twos}, origin="a")
    assert np.array_equal(layer.one.weight.numpy(), twos)
    with pytest.raises(ModelError, match=r"holds different values for 'one.weight' and 'two.weight', which are one weight"):
        apply(layer, {"one.weight": ones, "two.weight": twos}, origin="a")


def test_a_model_in_bfloat16_is_refused_by_name():
    layer = paddle.nn.Linear(2, 2)
    layer.bfloat16()
    with pytest.raises(ModelError, match=r"the weight 'weight' is bfloat16"):
        apply(layer, {}, origin="a")


@pytest.mark.parametrize(("metadata", "count"), [(None, 1), ({"format": "np"}, 0)])
def test_square_weights_of_a_file_without_a_framework_are_a_warning(tmp_path, metadata, count):
    save_file({"weight": np.ones((2, 2), np.float32)}, tmp_path / "a.safetensors", metadata=metadata)
    found = source._perhaps_transposed(paddle.nn.Linear(2, 2), tmp_path / "a.safetensors")
    assert [finding.kind for finding in found] == ["perhaps-transposed"] * count
    assert source._perhaps_transposed(paddle.nn.Linear(2, 3), tmp_path / "a.safetensors") == []


def test_integers_of_16_bits_in_safetensors_are_no_bfloat16(tmp_path):
    save_file({"a": np.array([1000], np.uint16)}, tmp_path / "a.safetensors")
    assert files.read(tmp_path / "a.safetensors")["a"] == 1000


def test_inputs_that_were_fitted_on_this_data_are_a_warning(tmp_path):
    spec = TensorSpec("price", "float32", ("batch",))
    fitted = preprocess.build({"inputs": {"price": {"kind": "numbers", "column": "price", "mean": [1.0], "deviation": [2.0]}}}, [spec])
    (finding,) = source.refitted(fitted, tmp_path)
    assert (finding.kind, finding.severity) == ("refitted-preprocess", "warning")
    assert source.refitted(preprocess.build({"kind": "tensors"}, [spec]), tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"[]", None])
def test_a_folder_that_is_incomplete_is_one_line(tmp_path, content):
    (tmp_path / "weights.safetensors").touch()
    if content is not None:
        (tmp_path / "checkpoint.json").write_bytes(content)
    with pytest.raises(ModelError, match=r"cannot be read \(.*\): correct the path, or copy it again"):
        files.read(tmp_path)
