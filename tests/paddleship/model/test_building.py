"""The user's model: what can be wrong with a factory, a forward or a checkpoint is one clear error each."""

import sys

import numpy as np
import paddle
import pytest

from paddleship.config.sections.model import Model
from paddleship.errors import ModelError
from paddleship.model import building

SOURCE = """
import paddle
from paddle import nn

def good(width=2):
    return nn.Linear(width, 1)

def wider():
    return nn.Linear(5, 1)

def number():
    return 7

def broken():
    return nn.Linear("two", 1)

class Fails(nn.Layer):
    def forward(self, x):
        return x + undefined

def fails():
    return Fails()
"""


@pytest.fixture(autouse=True)
def their_package(tmp_path, monkeypatch):
    (tmp_path / "their_models.py").write_text(SOURCE)
    (tmp_path / "syntax_error.py").write_text("def build(:")
    (tmp_path / "of_paddle_2.py").write_text("from paddle import nn\nimport paddle.fluid as fluid\n")
    (tmp_path / "asks_for_more.py").write_text("import nowhere.layers\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("their_models", None)


def settings(factory, **kwargs):
    return Model(factory=factory, kwargs=kwargs, inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 2]}])


@pytest.mark.parametrize(
    ("factory", "kwargs", "words"),
    [
        ("nowhere.models:build", {}, "no module named 'nowhere'"),
        ("of_paddle_2:build", {}, rf"'paddle.fluid', imported at .*of_paddle_2.py:2; the installed paddle {paddle.__version__} has none"),
        ("asks_for_more:build", {}, r"'nowhere', imported at .*asks_for_more.py:1\): set code.root \(of the doctor: --root\)"),
        ("their_models:absent", {}, "has no 'absent'"),
        ("syntax_error:build", {}, "does not import"),
        ("their_models:good", {"wdith": 3}, "unexpected keyword argument 'wdith'"),
        ("their_models:number", {}, "returned int, not a paddle.nn.Layer"),
        ("their_models:broken", {}, r"their_models.py:\d+"),
    ],
)
def test_a_bad_factory_is_one_clear_error(factory, kwargs, words):
    with pytest.raises(ModelError, match=words):
        building.build(settings(factory, **kwargs))


def test_an_error_in_forward_names_the_users_line():
    with pytest.raises(ModelError, match=r"name 'undefined' is not defined at .*their_models.py:\d+"):
        building.forward(building.build(settings("their_models:fails")), [paddle.ones([1, 2])])


def test_weights_survive_disk_exactly(tmp_path):
    layer = building.build(settings("their_models:good"))
    digest = building.save(layer, tmp_path / "checkpoint", {})
    fresh = building.build(settings("their_models:good"))
    assert building.restore(fresh, tmp_path / "checkpoint") == digest
    assert np.array_equal(fresh.weight.numpy(), layer.weight.numpy())
    assert sorted(path.name for path in (tmp_path / "checkpoint").iterdir()) == ["checkpoint.json", "weights.safetensors"]


@pytest.mark.parametrize("norm", [paddle.nn.utils.weight_norm, paddle.nn.utils.spectral_norm])
def test_a_weight_that_a_hook_derives_is_the_checkpoints_before_the_first_call(tmp_path, norm):
    trained, fresh = norm(paddle.nn.Linear(4, 3)).eval(), norm(paddle.nn.Linear(4, 3)).eval()
    trained(paddle.ones([1, 4]))
    building.save(trained, tmp_path / "checkpoint", {})
    building.restore(fresh, tmp_path / "checkpoint")
    np.testing.assert_array_equal(fresh.weight.numpy(), trained.weight.numpy())


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    building.save(building.build(settings("their_models:good")), tmp_path / "checkpoint", {})
    with pytest.raises(ModelError, match=r"\(different weights: weight\)"):
        building.restore(building.build(settings("their_models:wider")), tmp_path / "checkpoint")


def test_a_changed_checkpoint_is_refused(tmp_path):
    building.save(building.build(settings("their_models:good")), tmp_path / "checkpoint", {})
    path = tmp_path / "checkpoint" / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    with pytest.raises(ModelError, match=r"weights\.safetensors"):
        building.restore(building.build(settings("their_models:good")), tmp_path / "checkpoint")


@pytest.mark.parametrize(("value", "words"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_a_checkpoint_that_is_not_finite_is_refused(tmp_path, value, words):
    layer = building.build(settings("their_models:good"))
    layer.weight.set_value(np.full((2, 1), value, np.float32))
    building.save(layer, tmp_path / "checkpoint", {})
    with pytest.raises(ModelError, match=f"holds {words} in 'weight'"):
        building.restore(building.build(settings("their_models:good")), tmp_path / "checkpoint")


def test_minus_infinity_in_a_buffer_is_a_mask(tmp_path):
    trained, fresh = paddle.nn.Linear(2, 1), paddle.nn.Linear(2, 1)
    trained.register_buffer("mask", paddle.full([2], -np.inf))
    fresh.register_buffer("mask", paddle.zeros([2]))
    building.save(trained, tmp_path / "checkpoint", {})
    building.restore(fresh, tmp_path / "checkpoint")
    assert np.isneginf(fresh.mask.numpy()).all()


def test_a_missing_checkpoint_says_what_to_run(tmp_path):
    with pytest.raises(ModelError, match=r"the folder that `train` wrote.*paddleship run --again train"):
        building.restore(building.build(settings("their_models:good")), tmp_path)


def test_outputs_are_named_by_structure():
    tensor = paddle.ones([1])
    assert list(building.name_outputs(tensor)) == ["output"]
    assert list(building.name_outputs((tensor, tensor))) == ["output_0", "output_1"]
    assert list(building.name_outputs({"b": tensor, "a": [tensor, None, tensor]})) == ["b", "a.0", "a.2"]
    assert list(building.name_outputs((tensor, 3, "text"))) == ["output_0"]
    with pytest.raises(ModelError, match="returned set"):
        building.name_outputs({1, 2})


def test_to_static_makes_one_program_for_the_shapes_of_its_inputs_and_otherwise_one_for_each():
    specs = [item.spec() for item in settings("their_models:good").inputs]
    made = {}
    for declared in ((), specs):
        layer = building.to_static(building.build(settings("their_models:good")).eval(), declared)
        for batch in (1, 2, 3):
            layer(paddle.ones([batch, 2]))
        made[bool(declared)] = len(layer.forward.program_cache)
    assert made == {True: 1, False: 3}
