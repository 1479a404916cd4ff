"""Export: what the saved program answers has the names, order, dtypes and nesting of the eager answer."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from paddleship.config.sections.model import Model
from paddleship.conversion import exporting
from paddleship.conversion.converting import convert
from paddleship.errors import ModelError, RequestError
from paddleship.model import building
from paddleship.model.eager import Eager, SourceModel
from paddleship.shipped.computing import runtimes, structure
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.system import isolate

SOURCE = """
import math

import numpy as np
import paddle
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

class Marked(Base):
    def forward(self, x):
        return {"kind": "scores", "scores": self.linear(x), "n": [3, 0.5]}

class Sized(Base):
    def forward(self, x):
        return self.linear(x), len(x)

class Parts(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)

    def forward(self, parts, more, mask, scale=2.0, bias=None):
        y = self.linear(parts["x"]) * scale + more[1].sum(1, keepdim=True)
        y = y if more[0] is None else y + more[0]
        y = y if mask is None else y * mask
        return y if bias is None else y + bias

class Nothing(Base):
    def forward(self, x):
        return x

class Positions(nn.Layer):
    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(1, 2)

    def forward(self, x):
        places = paddle.to_tensor(np.arange(x.shape[1], dtype="float32"))
        return {"total": self.scale((x * places).sum(1, keepdim=True)), "each": x * places}

class Rows(Positions):
    def forward(self, x):
        weights = paddle.to_tensor(np.arange(x.shape[0], dtype="float32")) * 0 + 1
        return self.scale((x.sum(1) * weights).unsqueeze(1))

class MindsPadding(Positions):
    def forward(self, x):
        places = paddle.to_tensor(np.arange(x.shape[1], dtype="float32"))
        return self.scale((x + 1 + places).mean(1, keepdim=True))

class Never(Positions):
    def forward(self, x):
        return self.scale(x.sum(1, keepdim=True)) * math.tanh(float(x.mean()))

class Deaf(Base):
    def forward(self, x, unheard):
        return self.linear(x)
"""


@pytest.fixture(autouse=True)
def their_package(tmp_path, monkeypatch):
    (tmp_path / "their_exports.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("their_exports", None)


def source_model_of(name, tmp_path, width=4):
    settings = Model(factory=f"their_exports:{name}", inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", width]}])
    building.save(building.build(settings), tmp_path / "checkpoint", {})
    return SourceModel(settings, tmp_path / "checkpoint")


def base_of(width=4):
    return Candidate(
        name="paddle",
        model="theirs",
        runtime="paddle",
        precision="float32",
        threads=1,
        inputs=(TensorSpec("x", "float32", ("batch", width)),),
        outputs=(),
        preprocess={"kind": "tensors"},
        weights_sha256="",
        task="regression",
        options={"onednn": False},
    )


def exported(source_model, folder):
    folder.mkdir()
    return exporting.export(source_model, folder, base_of(), probes=[batch(2), batch(3)], timeout_s=60)[0]


def bucketed(name, tmp_path, **sizes):
    """Export a model of rows of any length, with these sizes to fall back on."""
    source_model, folder = source_model_of(name, tmp_path, "length"), tmp_path / "exported"
    folder.mkdir()
    probes = [batch(2, 3), batch(3, 5), batch(5, 8)]
    return source_model, exporting.export(source_model, folder, base_of("length"), probes=probes, timeout_s=60, sizes=lambda: sizes)


def batch(size, length=4):
    return {"x": np.random.default_rng(size).normal(size=(size, length)).astype(np.float32)}


def ask(name, load, *arguments, batches):
    with isolate.Isolated(name, load, *arguments, timeout_s=60) as child:
        return [child.call("run", inputs) for inputs in batches]


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
        (
            "Marked",
            ["scores"],
            {"dict": {"kind": {"constant": "scores"}, "scores": "scores", "n": {"list": [{"constant": 3}, {"constant": 0.5}]}}},
        ),
    ],
)
def test_every_runtime_answers_in_the_form_of_eager(tmp_path, name, names, nesting):
    source_model = source_model_of(name, tmp_path)
    candidate = exported(source_model, tmp_path / "exported")
    assert [spec.name for spec in candidate.outputs] == names
    assert Candidate.load(tmp_path / "exported").nesting == nesting
    assert convert("onnxruntime", tmp_path / "exported", tmp_path / "onnx", threads=1, probe=batch(2), timeout_s=60).made
    with isolate.Isolated("eager", Eager, source_model, timeout_s=60) as eager:
        expected = eager.call("run", batch(5))
    for folder in ("exported", "onnx"):
        with isolate.Isolated(folder, runtimes.load, tmp_path / folder, timeout_s=60) as runtime:
            answer = runtime.call("run", batch(5))
        assert list(answer) == list(expected)
        for key, array in expected.items():
            assert answer[key].shape == array.shape
            assert answer[key].dtype == array.dtype
            np.testing.assert_allclose(answer[key], array, rtol=1e-5, atol=1e-6)


def test_a_nested_answer_is_rebuilt_with_its_constants():
    answer = {"b": [b"1", None, 0.5], "a": (b"2", True, {"n": "text"})}
    tree, named = structure.describe(answer, lambda value: isinstance(value, bytes))
    assert list(named) == ["b.0", "a.0"]
    assert structure.rebuild(tree, named) == answer
    assert structure.constants(tree) == {"b.2": 0.5, "a.1": True, "a.2.n": "text"}


def test_a_number_that_depends_on_the_inputs_is_no_constant(tmp_path):
    with pytest.raises(ModelError, match="return it as a tensor"):
        exported(source_model_of("Sized", tmp_path), tmp_path / "exported")


def test_arguments_that_hold_several_inputs_are_exported_under_their_names(tmp_path):
    names = {"parts.x": 4, "more[1]": 2, "bias": 3}
    inputs = [{"name": name, "dtype": "float32", "shape": ["batch", width]} for name, width in names.items()]
    settings = Model(factory="their_exports:Parts", inputs=inputs, absent=["more[0]", "mask"])
    building.save(building.build(settings), tmp_path / "checkpoint", {})
    source_model = SourceModel(settings, tmp_path / "checkpoint")
    base = replace(base_of(), inputs=tuple(item.spec() for item in settings.inputs))
    random = np.random.default_rng(0)
    two, three = ({name: random.normal(size=(size, width)).astype(np.float32) for name, width in names.items()} for size in (2, 3))
    (tmp_path / "exported").mkdir()
    exporting.export(source_model, tmp_path / "exported", base, probes=[two, three], timeout_s=60)
    assert convert("onnxruntime", tmp_path / "exported", tmp_path / "onnx", threads=1, probe=two, timeout_s=60).made
    weights = load_file(tmp_path / "checkpoint" / "weights.safetensors")
    linear = three["parts.x"] @ weights["linear.weight"] + weights["linear.bias"]
    expected = linear * 2 + three["more[1]"].sum(1, keepdims=True) + three["bias"]
    for name, load, given in (
        ("eager", Eager, source_model),
        ("exported", runtimes.load, tmp_path / "exported"),
        ("onnx", runtimes.load, tmp_path / "onnx"),
    ):
        ((answer,),) = (found.values() for found in ask(name, load, given, batches=[three]))
        np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-5)


def test_a_model_that_computes_nothing_is_refused(tmp_path):
    with pytest.raises(ModelError, match="computes nothing"):
        exported(source_model_of("Nothing", tmp_path), tmp_path / "exported")


@pytest.mark.parametrize(("name", "programs"), [("Positions", 2), ("Rows", 4)])
def test_a_dimension_that_cannot_stay_dynamic_is_fixed_to_sizes_and_the_price_is_told(tmp_path, name, programs):
    source_model, (candidate, findings) = bucketed(name, tmp_path, batch=[1, 4], length=[4, 8])
    assert len(candidate.programs) == programs
    assert [finding.kind for finding in findings if finding.severity == "warning"] == ["fewer-dimensions"]
    assert "length is 4, 8" in findings[-1].message
    assert convert("onnxruntime", tmp_path / "exported", tmp_path / "onnx", threads=1, probe=batch(2, 3), timeout_s=60).made
    batches = [batch(1, 1), batch(2, 3), batch(4, 4), batch(6, 8), batch(9, 5)]
    expected = ask("eager", Eager, source_model, batches=batches)
    for folder in ("exported", "onnx"):
        for answer, right in zip(ask(folder, runtimes.load, tmp_path / folder, batches=batches), expected, strict=True):
            for key, array in right.items():
                assert answer[key].shape == array.shape
                np.testing.assert_allclose(answer[key], array, rtol=1e-5, atol=1e-5)
    with pytest.raises(RequestError, match="length is 9, this model was exported for at most 8"):
        ask("exported", runtimes.load, tmp_path / "exported", batches=[batch(2, 9)])


def test_a_model_that_keeps_its_dimensions_is_one_program_without_findings(tmp_path):
    source_model, folder = source_model_of("Pair", tmp_path), tmp_path / "exported"
    folder.mkdir()
    candidate, findings = exporting.export(source_model, folder, base_of(), probes=[batch(2), batch(3)], timeout_s=60, sizes=pytest.fail)
    assert candidate.programs == ()
    assert findings == []


def test_a_model_that_never_converts_is_an_error_with_its_line(tmp_path):
    with pytest.raises(ModelError, match=r"does not convert to a static graph .*their_exports.py:\d+"):
        bucketed("Never", tmp_path, batch=[1, 4], length=[4, 8])


def test_an_input_that_no_output_depends_on_is_refused_in_plain_words(tmp_path):
    settings = Model(
        factory="their_exports:Deaf",
        inputs=[{"name": name, "dtype": "float32", "shape": ["batch", 4]} for name in ("x", "unheard")],
    )
    building.save(building.build(settings), tmp_path / "checkpoint", {})
    with pytest.raises(ModelError, match="'their_exports:Deaf' takes an input that no output depends on, which Paddle does not export"):
        exporting.save_program(SourceModel(settings, tmp_path / "checkpoint"), tmp_path, [item.spec() for item in settings.inputs])


def test_where_only_padding_stops_fixed_sizes_the_error_says_so(tmp_path):
    with pytest.raises(ModelError, match=r"does not convert .*with fixed sizes \(length is 4, 8\) .*other values of output than eager"):
        bucketed("MindsPadding", tmp_path, batch=[1, 4], length=[4, 8])


def test_a_sublayer_to_skip_that_is_not_there_is_an_error(tmp_path):
    source_model, folder = source_model_of("Pair", tmp_path), tmp_path / "exported"
    folder.mkdir()
    with pytest.raises(ModelError, match=r"export.skip names 'encoder'.*linear"):
        exporting.export(source_model, folder, base_of(), probes=[batch(2)], timeout_s=60, skip=["encoder"])
