"""The layer of an exported program answers as Paddle Inference does without its passes, in eager mode and converted again."""

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
from tests.paddleship.model.exported_file.exported_layers import LAYERS


def export(layer, specs, folder):
    """The exported files of a layer."""
    layer.eval()
    paddle.jit.save(layer, str(folder / "model"), input_spec=specs)
    return Files.of(ExportedFile(exported=str(folder / "model.json")))


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


