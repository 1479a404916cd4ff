"""The layer of an exported program answers as Paddle Inference does without its passes, in eager mode and converted again."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import paddle
import pytest

from paddleship.config.sections.train import ExportedFile
from paddleship.errors import ModelError
from paddleship.model.exported_file import signatures, translating
from paddleship.model.exported_file.files import Files
from paddleship.model.exported_file.plain_predictor import PlainPredictor
from paddleship.model.float64 import Doubled
from paddleship.shipped.computing import layers, program_layer
from tests.paddleship.model.exported_file.exported_layers import LAYERS, ROWS


def export(layer, specs, folder):
    """The exported files of a layer."""
    layer.eval()
    paddle.jit.save(layer, str(folder / "model"), input_spec=specs)
    return Files(ExportedFile(exported=str(folder / "model.json")))


def imported(files):
    """The table of the program, and its layer with the file's weights."""
    table = translating.read(files.program)
    layer = program_layer.build(table)
    assert layers.fill(layer, files.weights(table)) == []
    layer.eval()
    return table, layer


def inputs_of(table, size):
    """Random inputs whose dynamic sizes are all `size`."""
    random = np.random.default_rng(size)

    def draw(item):
        shape = [given if given >= 0 else size for given in item["shape"]]
        return random.normal(size=shape) if item["dtype"] == "float32" else random.integers(0 if item["dtype"] == "bool" else 1, 2, shape)

    return {item["name"]: draw(item).astype(item["dtype"]) for item in table["inputs"]}


def ask(layer, inputs):
    with paddle.no_grad():
        result = layer(*map(paddle.to_tensor, inputs.values()))
    return [tensor.numpy() for tensor in (result if isinstance(result, list | tuple) else [result])]


@pytest.mark.filterwarnings("ignore:no variable in your model")
@pytest.mark.parametrize("name", LAYERS)
def test_the_layer_of_a_program_answers_as_the_file(name, tmp_path):
    paddle.seed(0)
    files = export(*LAYERS[name](), tmp_path)
    table, layer = imported(files)
    predictor = PlainPredictor(files.program, files.parameters if files.parameters.exists() else None)
    for size in (3, 5):  # of the batch, and of the sequence where it is dynamic
        inputs = inputs_of(table, size)
        answers, expected = ask(layer, inputs), predictor.run(inputs)
        assert len(answers) == len(expected)
        for answer, other in zip(answers, expected, strict=True):
            assert answer.dtype == other.dtype
            np.testing.assert_allclose(answer, other.reshape(answer.shape), rtol=1e-6, atol=1e-6)
    specs = [paddle.static.InputSpec([None if size < 0 else size for size in item["shape"]], item["dtype"]) for item in table["inputs"]]
    again = ask(paddle.jit.to_static(imported(files)[1], input_spec=specs, full_graph=True), inputs)
    for answer, other in zip(again, answers, strict=True):
        np.testing.assert_allclose(answer, other, rtol=1e-6, atol=1e-6)
    with Doubled():
        double = ask(layer, inputs)
    for answer, other in zip(double, answers, strict=True):
        np.testing.assert_allclose(answer, other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["convolution, batch norm, pool", "interpolate"])
def test_a_program_of_the_old_format_is_translated(name, tmp_path):
    code = (
        "import sys, paddle; from tests.paddleship.model.exported_file.exported_layers import LAYERS; "
        f"layer, specs = LAYERS[{name!r}](); layer.eval(); paddle.jit.save(layer, sys.argv[1], input_spec=specs)"
    )
    command, environment = [sys.executable, "-c", code, str(tmp_path / "model")], {**os.environ, "FLAGS_enable_pir_api": "0"}
    subprocess.run(command, env=environment | {"PYTHONPATH": str(Path(__file__).parents[4])}, check=True, capture_output=True)
    files = Files(ExportedFile(exported=str(tmp_path / "model.pdmodel")))
    table, layer = imported(files)
    inputs = inputs_of(table, 3)
    expected = PlainPredictor(files.program, files.parameters if files.parameters.exists() else None).run(inputs)
    for answer, other in zip(ask(layer, inputs), expected, strict=True):
        np.testing.assert_allclose(answer, other, rtol=1e-6, atol=1e-6)


def edited(tmp_path, before, after):
    """The program of a small layer whose file was edited."""
    files = export(paddle.nn.Sequential(paddle.nn.Linear(4, 2), paddle.nn.ReLU()), ROWS, tmp_path)
    text = files.program.read_text(encoding="utf-8")
    assert before in text
    files.program.write_text(text.replace(before, after), encoding="utf-8")
    return files.program


def test_an_operator_without_a_function_is_named(tmp_path, monkeypatch):
    known = signatures.of_paddle()
    monkeypatch.setattr(signatures, "of_paddle", lambda: {name: order for name, order in known.items() if name != "relu"})
    with pytest.raises(ModelError, match=r"holds the operator 'relu', which cannot be called .Paddle has no function of that name"):
        translating.read(edited(tmp_path, "1.relu", "1.relu"))


class Reader(paddle.nn.Layer):
    def forward(self, x):
        return x * 2, paddle.vision.ops.read_file("/etc/hostname")


def test_an_operator_that_reads_a_file_is_refused_by_its_name(tmp_path):
    with pytest.warns(UserWarning, match="no variable in your model"):
        files = export(Reader(), ROWS, tmp_path)
    with pytest.raises(ModelError, match=r"holds the operator 'pd_op.read_file', which is no calculation of Paddle"):
        translating.read(files.program)


@pytest.mark.filterwarnings("ignore:Tensor do not have 'place'")
def test_a_program_for_training_is_refused(tmp_path):
    paddle.enable_static()
    try:
        program = paddle.static.Program()
        with paddle.static.program_guard(program):
            x = paddle.static.data("x", [None, 4], "float32")
            loss = paddle.nn.Linear(4, 1)(x).mean()
            paddle.optimizer.SGD(0.1).minimize(loss)
        paddle.base.core.serialize_pir_program(program, str(tmp_path / "train.json"), True, True, True)
    finally:
        paddle.disable_static()
    with pytest.raises(ModelError, match=r"it is a program for training: export the model with paddle.jit.save") as refused:
        translating.read(tmp_path / "train.json")
    assert len(str(refused.value).splitlines()) == 1
