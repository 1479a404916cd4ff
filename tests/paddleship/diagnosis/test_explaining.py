"""Faults of real runtimes and faults made on purpose, each explained by its cause, its layer, its line and its pass."""

import json
import re
import sys
from dataclasses import replace

import numpy as np
import pytest

from paddleship.config.sections.model import Model
from paddleship.config.sections.verify import Verify
from paddleship.conversion import converting, exporting
from paddleship.diagnosis import explaining, program_contents, replay
from paddleship.diagnosis.recording import Call
from paddleship.model import building
from paddleship.model.eager import Eager, SourceModel
from paddleship.plots import charts
from paddleship.proof import evidence
from paddleship.proof.cases import inputs
from paddleship.reports.finding import Finding
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.system import isolate
from paddleship.weights.candidate_files import WeightsWorker
from paddleship.weights.weight_comparison import NotCompared, WeightComparison

SOURCE = """
import paddle
from paddle import nn
from paddle.nn import functional as F

class Plain(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2D(8)
        self.fc = nn.Linear(8, 4)

    def forward(self, x):
        return self.fc(F.relu(self.norm(self.conv(x))).mean([2, 3]))

class Halved(Plain):
    def forward(self, x):
        return super().forward(x.astype("float16").astype("float32"))

class Dropping(Plain):
    def forward(self, x):
        return super().forward(x) * (paddle.rand([4]) >= 0.5).astype(x.dtype)  # dropout left on

class Gram(Plain):
    def forward(self, x):
        y = self.conv(x)
        y = y * 0.5
        z = paddle.matmul(y, y)  # wrong in oneDNN
        return self.fc(z.mean([2, 3]))

class Block(nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2D(8, 8, 3, padding=1)

    def forward(self, x):
        return x + self.bend(self.conv(x))

    def bend(self, y):
        y = y - 0.5
        return y * ((paddle.arange(8) + 2**25 + 1) % 97).astype(y.dtype)  # wrong in paddle2onnx

class Nested(Plain):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(nn.Conv2D(8, 8, 1), Block(), Block())

    def forward(self, x):
        return self.fc(self.blocks(self.conv(x)).mean([2, 3]))

class Leaky(Plain):
    def forward(self, x):
        y = self.conv(x)
        y = F.leaky_relu(y, 0.1)  # kills oneDNN
        return self.fc(y.mean([2, 3]))

class Rows(Plain):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x):
        y = self.conv(x).unsqueeze(2)
        y = self.norm(y)  # kills paddle2onnx
        return y.mean([1, 2, 3])

class Weighed(nn.Layer):
    def forward(self, x, weight):
        x = x * 2
        x = F.softplus(x, 2, 15)  # kills paddle2onnx before the second input is used
        return x * weight

class Weighs(Plain):
    def __init__(self):
        super().__init__()
        self.weighed = Weighed()

    def forward(self, x):
        y = self.fc(self.conv(x).mean([2, 3]))
        return self.weighed(y, y + 1)

class Scale(nn.Layer):
    def forward(self, x, factors, *, power=1):
        return x * factors["first"] ** power, None

class Calls(Plain):
    def __init__(self):
        super().__init__()
        self.scale = Scale()
        self.inner = nn.Linear(4, 4)
        self.empty = nn.Identity()

    def forward(self, x):
        y = self.empty(self.fc(self.norm(self.conv(x)).mean([2, 3])))
        y, _ = self.scale(y, {"first": y}, power=2)
        return self.inner(self.inner(y))
"""
SETTINGS = Verify(timeout_s=100)


@pytest.fixture(autouse=True)
def their_package(tmp_path, monkeypatch):
    (tmp_path / "their_layers.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("their_layers", None)


def settings(name):
    return Model(factory=f"their_layers:{name}", inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 3, 8, 8]}])


@pytest.fixture
def source_model_of(tmp_path):
    def make(name):
        building.save(building.build(settings(name)), tmp_path / "checkpoint", {})
        return SourceModel(settings(name), tmp_path / "checkpoint")

    return make


@pytest.fixture
def convert(tmp_path):
    """Export a source_model and convert it."""

    def make(source_model, runtime):
        specs = tuple(item.spec() for item in source_model.model.inputs)
        exported, target = tmp_path / "exported", tmp_path / runtime
        exported.mkdir()
        (tmp_path / "scratch").mkdir()
        base = Candidate("exported", "test", "paddle", "float32", 1, specs, (), {"kind": "tensors"}, "", "")
        exporting.export(source_model, exported, base, probes=[case.inputs for case in cases(source_model)[:3]], timeout_s=100)
        probe = cases(source_model)[0].inputs
        converter = converting.Converter(exported, tmp_path / "scratch", threads=1, probe=probe, timeout_s=100, source_model=source_model)
        outcome = converter.make(runtime, target)
        assert outcome.made, outcome.reason
        return target

    return make


def cases(source_model):
    return inputs.generate([item.spec() for item in source_model.model.inputs], seed=0, max_batch=8)


def explain(source_model, folder, *, failed=("noise_ratio",), answer_as=lambda answer: answer, **facts):
    asked = cases(source_model)
    truth = [Eager(source_model, dtype="float64").run(case.inputs) for case in asked]
    reference = [Eager(source_model).run(case.inputs) for case in asked]
    runtime = runtimes.load(folder)
    answers = [answer_as(runtime.run(case.inputs)) for case in asked]
    proved = evidence.gather(asked, reference, truth)
    facts = {"compared_weights": WeightsWorker(source_model.checkpoint, folder.parent / "exported").compare(folder)} | facts
    return explaining.explain(source_model, folder, evidence=proved, answers=answers, settings=SETTINGS, failed=failed, **facts)


def line_of(words):
    number = next(number for number, line in enumerate(SOURCE.splitlines(), 1) if words in line)
    return f"their_layers.py:{number}"


def kinds(found):
    return [finding.kind for finding in found.findings]


def rewrite(folder, change):
    """Change the program of a candidate, and let its hashes fit again."""
    candidate = Candidate.load(folder)
    program = json.loads((folder / "model.json").read_text())
    change(program["program"]["regions"][0]["blocks"][0]["ops"])
    (folder / "model.json").write_text(json.dumps(program))
    candidate.save(folder)


def test_a_wrong_operator_of_onednn_is_found_with_its_line_and_its_pass(source_model_of, convert, tmp_path):
    source_model = source_model_of("Gram")
    found = explain(source_model, convert(source_model, "paddle-onednn"))
    (layer,) = found.findings
    assert layer.kind == "wrong-layer"
    assert layer.where.endswith(line_of("wrong in oneDNN"))
    assert layer.layer == "Gram"
    assert re.search(r"switching off \w+_pass alone is enough", layer.message)
    assert layer.advice.startswith("ship paddle, which is paddle-onednn without ")
    name = charts.layers(found.layers, "paddle-onednn", SETTINGS.noise_limit, tmp_path, "layers.png")
    assert (tmp_path / name).stat().st_size > 10_000


def test_a_wrong_conversion_is_found_in_the_first_nested_layer_and_the_line_of_its_helper(source_model_of, convert):
    source_model = source_model_of("Nested")
    found = explain(source_model, convert(source_model, "onnxruntime"))
    (layer,) = found.findings
    assert layer.layer == "blocks.1"
    assert layer.where.endswith(line_of("wrong in paddle2onnx"))
    ratios = {error.call.path: error.ratio for error in found.layers}
    assert ratios["blocks.0"] < 8 < ratios["blocks.1"]
    assert ratios["blocks.1.conv"] < 8


def test_a_layer_that_kills_the_runtime_is_found_with_its_line(source_model_of, tmp_path):
    source_model = source_model_of("Leaky")
    specs = tuple(item.spec() for item in source_model.model.inputs)
    candidate = Candidate("paddle-onednn", "test", "paddle", "float32", 1, specs, (), {}, "", "", options={"onednn": True})
    batches = [case.inputs for case in cases(source_model)[1:3]]
    found = replay.locate(source_model, batches[1], candidate=candidate, work=tmp_path / "work", limit=8, timeout_s=100, other=batches[0])
    (layer,) = found.findings
    assert "died of SIG" in layer.message
    assert layer.where.endswith(line_of("kills oneDNN"))
    assert [error.ratio for error in found.errors if error.call.path] < [8, 8]


def test_a_layer_that_the_converter_dies_of_is_found_with_its_line(source_model_of, tmp_path):
    source_model = source_model_of("Rows")
    specs = tuple(item.spec() for item in source_model.model.inputs)
    candidate = Candidate("onnxruntime", "test", "onnxruntime", "float32", 1, specs, (), {}, "", "")
    batches = [case.inputs for case in cases(source_model)[1:3]]
    found = replay.locate(source_model, batches[1], candidate=candidate, work=tmp_path / "work", limit=8, timeout_s=100, unmade=True)
    (layer,) = found.findings
    assert "[OP: pd_op.group_norm]" in layer.message
    assert layer.where.endswith(line_of("kills paddle2onnx"))
    assert {error.call.path: error.dead for error in found.errors} == {"": True, "conv": False, "norm": True}


def test_a_line_is_found_before_every_input_was_used(source_model_of, tmp_path):
    source_model = source_model_of("Weighs")
    specs = tuple(item.spec() for item in source_model.model.inputs)
    candidate = Candidate("onnxruntime", "test", "onnxruntime", "float32", 1, specs, (), {}, "", "")
    batch = cases(source_model)[1].inputs
    (layer,) = replay.locate(source_model, batch, candidate=candidate, work=tmp_path / "work", limit=8, timeout_s=100, unmade=True).findings
    assert layer.layer == "weighed"
    assert layer.where.endswith(line_of("before the second input is used"))


def test_right_layers_are_right_whatever_they_are_called_with(source_model_of, tmp_path):
    source_model = source_model_of("Calls")
    specs = tuple(item.spec() for item in source_model.model.inputs)
    candidate = Candidate("paddle", "test", "paddle", "float32", 1, specs, (), {}, "", "")
    batches = [case.inputs for case in cases(source_model)[1:3]]
    found = replay.locate(source_model, batches[1], candidate=candidate, work=tmp_path / "work", limit=8, timeout_s=100, other=batches[0])
    by_path = {error.call.path: error for error in found.errors}
    assert list(by_path) == ["", "conv", "norm", "fc", "empty", "scale", "inner"]
    assert by_path["inner"].call.times == 2
    assert by_path["inner"].call.dynamic == ((0,),)
    assert "computes nothing" in by_path["empty"].reason
    assert all(error.ratio < 8 for path, error in by_path.items() if path != "empty")
    assert [finding.severity for finding in found.findings] == ["note"]


@pytest.mark.parametrize("runtime", ["paddle", "onnxruntime"])
def test_a_changed_weight_is_found_before_anything_is_replayed(source_model_of, convert, tmp_path, runtime):
    source_model = source_model_of("Plain")
    folder = convert(source_model, runtime)
    layer = building.build(source_model.model)
    building.restore(layer, source_model.checkpoint)
    changed = layer.fc.weight.numpy()
    changed[3, 2] *= np.float32(1.001)
    layer.fc.weight.set_value(changed)
    digest = building.save(layer, tmp_path / "trained", {})
    replace(Candidate.load(folder), weights_sha256=digest).save(folder)  # a hash that fits: the content must tell
    found = explain(SourceModel(source_model.model, tmp_path / "trained"), folder)
    assert kinds(found) == ["weights-differ"]
    assert "fc.weight differs from the checkpoint in 1 of 32 values, most at [3, 2]" in found.findings[0].message
    assert found.layers == []


def test_another_checkpoint_is_known_by_its_hash(source_model_of, convert):
    folder = convert(source_model_of("Plain"), "paddle")
    found = explain(source_model_of("Plain"), folder)
    assert set(kinds(found)) == {"weights-differ"}
    assert "was made from the weights" in found.findings[0].message


def test_half_precision_and_other_preprocessing_are_named_together(source_model_of, convert):
    source_model = source_model_of("Halved")
    found = explain(replace(source_model, model=settings("Plain")), convert(source_model, "paddle"), preprocess={"kind": "characters"})
    assert kinds(found) == ["preprocess-differs", "dtype-differs"]
    assert "keys: kind" in found.findings[0].message
    assert "compute in float16" in found.findings[1].message


def test_a_batch_norm_in_train_mode_is_named_with_its_layer(source_model_of, convert):
    def train(operators):
        (norm,) = [operator for operator in operators if "batch_norm" in operator["#"]]
        for attribute in norm["A"]:
            if attribute["N"] in ("is_test", "use_global_stats"):
                attribute["AT"]["D"] = False

    source_model = source_model_of("Plain")
    folder = convert(source_model, "paddle")
    rewrite(folder, train)
    found = explain(source_model, folder)
    assert ("train-mode", "norm") in [(finding.kind, finding.layer) for finding in found.findings]
    assert found.layers == []


def test_a_frozen_dimension_is_read_off_the_program(source_model_of, convert):
    def freeze(operators):
        (data,) = [operator for operator in operators if operator["#"] == "1.data"]
        next(attribute for attribute in data["A"] if attribute["N"] == "shape")["AT"]["D"][0] = 2

    source_model = source_model_of("Plain")
    folder = convert(source_model, "paddle")
    rewrite(folder, freeze)
    (finding,) = isolate.run("reading", program_contents.inspect, folder, source_model.checkpoint, timeout_s=60)
    assert finding.kind == "frozen-dimension"
    assert "batch was frozen" in finding.message


@pytest.mark.parametrize("runtime", ["paddle", "onnxruntime"])
def test_dropout_that_was_left_on_is_train_mode_and_blames_no_line_or_batch(source_model_of, convert, runtime):
    source_model = source_model_of("Plain")
    folder = convert(replace(source_model, model=settings("Dropping")), runtime)
    found = explain(source_model, folder, failed=("noise_ratio", "repeat_ratio", "threads_ratio", "batch_ratio"))
    assert set(kinds(found)) == {"train-mode"}
    assert (found.layers, [finding.where for finding in found.findings]) == ([], [None] * len(found.findings))


def test_what_follows_from_random_answers_is_not_told_beside_them():
    def finding(kind):
        return Finding(kind, "error", "words")

    random, batch, mode = finding("not-deterministic"), finding("batch-variant"), finding("train-mode")
    assert explaining.without_consequences([random, batch, random]) == [random]
    assert explaining.without_consequences([random, batch, mode]) == [mode]
    assert explaining.without_consequences([batch]) == [batch]


def test_what_was_checked_and_what_was_not_is_said_where_nothing_is_found(source_model_of, convert):
    source_model = source_model_of("Plain")
    found = explain(
        source_model,
        convert(source_model, "openvino"),
        answer_as=lambda answer: {name: array * 1.5 for name, array in answer.items()},
        compared_weights=None,
    )
    (said,) = [finding for finding in found.findings if finding.kind == "wrong-answers"]
    assert "checked, and nothing was found: modes, dtypes and inputs of the program, 4 layers, each by itself" in said.message
    assert "not checked: weights, optimisation passes" in said.message
    assert "as they should be" not in str(said)


def test_weights_that_were_compared_in_part_are_not_called_right():
    inspection = explaining.Inspection()
    compared_weights = WeightComparison(total=100, compared=60, exact=60, not_compared=(NotCompared("fc.weight", 40, "it was folded"),))
    assert explaining._weights(compared_weights, inspection) == []
    assert (
        str(inspection)
        == "checked, and nothing was found: weights (60% of them compared); not checked: 40.0% of the weights (it was folded)"
    )


def test_files_that_cannot_be_read_are_the_cause_and_nothing_is_called_right():
    unread = WeightComparison(unread="model.pdiparams ends within 'linear_0.w_0'")
    inspection = explaining.Inspection()
    assert (
        explaining._weights(unread, inspection)[0].message == "the weights cannot be compared (model.pdiparams ends within 'linear_0.w_0')"
    )
    assert inspection.clean == []


def test_an_honest_candidate_that_only_threads_disturb_is_not_replayed(source_model_of, convert):
    source_model = source_model_of("Plain")
    found = explain(source_model, convert(source_model, "onnxruntime"), failed=["threads_ratio"])
    assert (found.findings, found.layers) == ([], [])


@pytest.mark.parametrize(("name", "other"), [("paddle", False), ("onnxruntime", True)])
def test_no_other_candidate_is_advised_where_the_program_itself_is_wrong(name, other):
    candidate = Candidate(name, "test", name, "float32", 1, (), (), {}, "", "")
    whole = replay.LayerError(Call(0, "", "Net", True, "net.py:3", None), 1.0, 1e-6)
    (found,) = replay._findings([whole], whole, None, candidate, 8)
    assert ("ship another candidate" in found.advice) == other
    assert "which of its lines was not found" in found.message


def test_a_model_whose_rounding_adds_up_agrees_with_its_proof_and_blames_no_layer():
    def error(number, parent, candidate, noise):
        return replay.LayerError(Call(number, "" if parent is None else str(number), "Layer", True, None, parent), candidate, noise)

    candidate = Candidate("paddle-onednn", "test", "paddle", "float32", 1, (), (), {}, "", "")
    whole, part = error(0, None, 1.4e-6, 1.2e-7), error(1, 0, 1.2e-6, 1e-6)
    assert (whole.ratio > 8, part.ratio > 8) == (True, False)
    assert whole.adds_up(8, 1)
    assert not error(0, None, 1e-4, 1.2e-7).adds_up(8, 1)
    said = replay.no_layer([whole, part], candidate, 8)
    assert (said.kind, said.severity) == ("wrong-layer", "note")
    assert "the model itself differs from the reference in paddle-onednn by 11.7 × eager's own noise" in said.message
    assert "disagree" not in said.message
    assert "disagree" in replay.no_layer([part], candidate, 8).message


def test_the_innermost_wrong_layer_is_first_even_where_a_layer_between_hides_it():
    def error(number, parent, ratio):
        return replay.LayerError(Call(number, str(number), "Layer", True, None, parent), ratio * 1e-6)

    errors = [error(0, None, 100), error(1, 0, 1), error(2, 1, 100), error(3, 0, 100)]
    assert replay.first_wrong(errors, limit=8) is errors[2]
    assert replay.first_wrong([error(0, None, 7)], limit=8) is None


@pytest.mark.parametrize(
    ("name", "precision"),
    [("onnxruntime-int8-dynamic", "int8"), ("paddle-onednn-bf16", "bfloat16"), ("paddle-pruned", "float32-2:4")],
)
def test_a_lower_precision_that_only_changes_decisions_is_called_so_and_not_searched(source_model_of, convert, name, precision):
    source_model = source_model_of("Plain")
    found = explain(source_model, convert(source_model, name), failed=("flip_rate_high",))
    assert kinds(found) == ["low-precision"]
    assert f"{precision} changes too many decisions" in found.findings[0].message
    assert found.layers == []
