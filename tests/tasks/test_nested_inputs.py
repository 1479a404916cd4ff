"""A model whose forward takes a dict, a list and an optional argument: from columns of the data to the answer of a server."""

import json
import sys

import numpy as np
import pytest
from safetensors.numpy import load_file

from paddleship.config import loading
from paddleship.errors import BadInput, CandidateError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.transports.http.inference import JsonModel
from tasks.export import export
from tasks.prepare import prepare
from tasks.train import train

MODULE = """
import numpy as np
import paddle
from paddle import nn


def read(raw):
    for values in np.random.default_rng(0).normal(size=(60, 3)).astype("float32"):
        yield {"signal": values[:2], "level": values[2:], "y": int(values[0] + values[2] > 0)}


class Parts(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, parts, more, mask=None, scale=2.0):
        y = self.linear(parts["signal"]["raw"]) * scale
        y = y + paddle.concat([-more[1], more[1]], axis=1)
        return y if mask is None else y * mask


def levels(outputs, classes):
    scores = next(iter(outputs.values()))
    return {"name": classes[scores.argmax()], "lead": scores.max() - scores.min()}
"""
INPUTS = {"parts.signal.raw": 2, "more[1]": 1}


@pytest.fixture
def params(tmp_path, monkeypatch):
    (tmp_path / "their_parts.py").write_text(MODULE)
    (tmp_path / "raw").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield loading.parse(
        {
            "name": "parts",
            "code": {"watch": "their_parts.py"},
            "data": {
                "raw": "raw",
                "reader": "their_parts:read",
                "inputs": ["signal", "level"],
                "label": "y",
                "task": "classification",
                "classes": ["low", "high"],
                "validation": 0.2,
                "test": 0.2,
            },
            "preprocess": {
                "inputs": {
                    "parts.signal.raw": {"kind": "tensors", "column": "signal"},
                    "more[1]": {"kind": "tensors", "column": "level"},
                }
            },
            "model": {
                "factory": "their_parts:Parts",
                "inputs": [{"name": name, "dtype": "float32", "shape": ["batch", width]} for name, width in INPUTS.items()],
                "absent": ["more[0]"],
            },
            "answer": {"own": "their_parts:levels"},
            "train": {"epochs": 2, "batch_size": 8},
            "package": {"repository": "parts"},
        }
    )
    sys.modules.pop("their_parts", None)


@pytest.mark.long
def test_columns_of_any_name_become_parts_of_arguments_and_the_answer_is_that_of_the_candidate_s_own_code(params, tmp_path):
    prepare(params)
    train(params)
    export(params)
    folder = tmp_path / "models/exported"
    assert Candidate.load(folder).files.keys() >= {"code/their_parts.py"}
    model = JsonModel(ServedModel(folder))
    assert [one["name"] for one in model.metadata()["inputs"]] == ["signal", "level"]
    signal, level = np.float32([[1, 2], [3, -4]]), np.float32([[0.5], [-2]])
    columns = {"signal": signal, "level": level}
    inputs = [{"name": name, "datatype": "FP32", "shape": list(one.shape), "data": one.ravel().tolist()} for name, one in columns.items()]
    outputs = {one["name"]: one["data"] for one in json.loads(model.answer(json.dumps({"inputs": inputs}).encode()))["outputs"]}
    weights = load_file(tmp_path / "models/checkpoint/weights.safetensors")
    expected = (signal @ weights["linear.weight"] + weights["linear.bias"]) * 2 + np.concatenate([-level, level], axis=1)
    np.testing.assert_allclose(np.reshape(next(iter(outputs.values())), (2, 2)), expected, rtol=1e-5)
    answers = [json.loads(text) for text in outputs["answer"]]
    assert [one["name"] for one in answers] == outputs["label"] == [("low", "high")[row.argmax()] for row in expected]
    assert answers[0]["lead"] == pytest.approx(np.ptp(expected[0]), rel=1e-5)

    theirs = tmp_path / "their_parts.py"
    theirs.write_text(theirs.read_text().replace("argmax", "argmin"))
    with pytest.raises(BadInput, match=r"code.watch"):
        export(params)
    code = folder / "code/their_parts.py"
    code.write_text(code.read_text().replace("argmax", "argmin"))
    with pytest.raises(CandidateError, match=r"their_parts.py changed since the candidate was made"):
        ServedModel(folder)
