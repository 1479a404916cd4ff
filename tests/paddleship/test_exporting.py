"""Export: what the saved program answers has the names, order, dtypes and nesting of the eager answer."""

import sys

import numpy as np
import pytest

from paddleship import exporting, isolate, model, runtimes, structure
from paddleship.candidate import Candidate
from paddleship.converting import convert
from paddleship.eager import Eager, Subject
from paddleship.errors import ModelError
from paddleship.params import Model
from paddleship.spec import TensorSpec

SOURCE = """
from paddle import nn

class Base(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

class Nested(Base):
    def forward(self, x):
        y = self.linear(x)
        return {"scores": y, "again": y, "extra": [y * 2, None, (x, y.sum())]}

class Pair(Base):
    def forward(self, x):
        return self.linear(x), x

class Lone(Base):
    def forward(self, x):
        return [self.linear(x)]

class Nothing(Base):
    def forward(self, x):
        return x
"""


@pytest.fixture(autouse=True)
def their_package(tmp_path, monkeypatch):
    (tmp_path / "their_exports.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("their_exports", None)


def subject_of(name, tmp_path):
    settings = Model(factory=f"their_exports:{name}", inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 4]}])
    model.save(model.build(settings), tmp_path / "checkpoint", {})
    return Subject(settings, tmp_path / "checkpoint")


def exported(subject, folder):
    base = Candidate(
        name="paddle",
        model="theirs",
        runtime="paddle",
        precision="float32",
        threads=1,
        inputs=(TensorSpec("x", "float32", ("batch", 4)),),
        outputs=(),
        preprocess={"kind": "tensors"},
        weights_sha256="",
        task="regression",
        options={"onednn": False},
    )
    folder.mkdir()
    return exporting.export(subject, folder, base, probes=[batch(2), batch(3)], timeout_s=60)


def batch(size):
    return {"x": np.random.default_rng(size).normal(size=(size, 4)).astype(np.float32)}


@pytest.mark.parametrize(
    ("name", "names", "nesting"),
    [
        (
            "Nested",
            ["scores", "again", "extra.0", "extra.2.0", "extra.2.1"],
            {"dict": {"scores": "scores", "again": "again", "extra": {"list": ["extra.0", None, {"tuple": ["extra.2.0", "extra.2.1"]}]}}},
        ),
        ("Pair", ["output_0", "output_1"], {"tuple": ["output_0", "output_1"]}),
        ("Lone", ["output_0"], {"list": ["output_0"]}),
    ],
)
def test_every_runtime_answers_in_the_form_of_eager(tmp_path, name, names, nesting):
    subject = subject_of(name, tmp_path)
    candidate = exported(subject, tmp_path / "exported")
    assert [spec.name for spec in candidate.outputs] == names
    assert Candidate.load(tmp_path / "exported").nesting == nesting
    assert convert("onnxruntime", tmp_path / "exported", tmp_path / "onnx", threads=1, probe=batch(2), timeout_s=60).made
    with isolate.Isolated("eager", Eager, subject, timeout_s=60) as eager:
        expected = eager.call("run", batch(5))
    for folder in ("exported", "onnx"):
        with isolate.Isolated(folder, runtimes.load, tmp_path / folder, timeout_s=60) as runtime:
            answer = runtime.call("run", batch(5))
        assert list(answer) == list(expected)
        for key, array in expected.items():
            assert answer[key].shape == array.shape
            assert answer[key].dtype == array.dtype
            np.testing.assert_allclose(answer[key], array, rtol=1e-5, atol=1e-6)


def test_a_nested_answer_is_rebuilt():
    tree, named = structure.describe({"b": [1, None], "a": (2,)}, lambda value: isinstance(value, int))
    assert list(named) == ["b.0", "a.0"]
    assert structure.rebuild(tree, named) == {"b": [1, None], "a": (2,)}


def test_a_model_that_computes_nothing_is_refused(tmp_path):
    with pytest.raises(ModelError, match="computes nothing"):
        exported(subject_of("Nothing", tmp_path), tmp_path / "exported")
