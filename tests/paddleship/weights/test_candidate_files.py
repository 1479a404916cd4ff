"""Real exports of a model with weights of many kinds: honest files are right to the last number, and each fault in a file is named."""

import shutil
import sys
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from safetensors.numpy import load_file, save_file

from paddleship.config.sections.model import Model
from paddleship.conversion import exporting, half_precision, tensor_names
from paddleship.conversion.converting import Converter
from paddleship.errors import CandidateError
from paddleship.model import building
from paddleship.model.eager import SourceModel
from paddleship.proof.cases import inputs
from paddleship.proof.parity import Judgement
from paddleship.proof.weights import hold_to_checkpoint
from paddleship.shipped.computing import layers
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.runtimes import registry
from paddleship.shipped.computing.runtimes.registry import Registered
from paddleship.weights import candidate_files, paddle_files, weight_comparison
from paddleship.weights.candidate_files import EXPORTED, WeightFiles, WeightsWorker

SOURCE = """
import paddle
from paddle import nn
from paddle.nn import functional as F

class Mixed(nn.Layer):
    def __init__(self):
        super().__init__()
        paddle.seed(0)
        self.embed = nn.Embedding(40, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 4, num_layers=2, direction="bidirect")
        self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 8)
        self.tied = nn.Linear(8, 8)
        self.tied.weight = self.one.weight
        self.normed = paddle.nn.utils.weight_norm(nn.Linear(8, 8))
        self.spectral = paddle.nn.utils.spectral_norm(nn.Linear(8, 8))
        self.conv, self.norm = nn.Conv1D(8, 8, 3, padding=1, groups=2), nn.BatchNorm1D(8)
        self.unused = nn.Linear(8, 5)
        self.register_buffer("shift", paddle.linspace(0, 1, 8))
        self.register_buffer("table", paddle.linspace(1, 2, 8), persistable=False)
        self.plain = paddle.linspace(2, 3, 8)
        for parameter in self.parameters():
            parameter.set_value(parameter + 0.01 * paddle.randn(parameter.shape))
        self.norm._mean.set_value(paddle.linspace(-0.5, 0.5, 8))

    def forward(self, ids):
        y, _ = self.lstm(self.embed(ids))
        y = F.relu(self.two(F.relu(self.one(y)))) + self.shift * self.table
        y = self.spectral(self.normed(self.tied(y))) + self.plain
        return self.norm(self.conv(y.transpose([0, 2, 1]))).mean(2)
"""
INPUTS = [{"name": "ids", "dtype": "int64", "shape": ["batch", "length"], "low": 0, "high": 39}]
DERIVED = 8 + 64 + 64 + 8 + 8  # numbers that weight_norm and spectral_norm are given: they are compared with what those make
KINDS = (
    "paddle",
    "paddle-pruned",
    "onnxruntime",
    "onnxruntime-int8-dynamic",
    "onnxruntime-int8-dynamic-per-tensor",
    "openvino",
    "openvino-int8",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A checkpoint, its export and candidates of it."""
    work = tmp_path_factory.mktemp("weighing")
    (work / "their_weights.py").write_text(SOURCE)
    for folder in ("exported", "scratch"):
        (work / folder).mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(work)
        settings = Model(factory="their_weights:Mixed", inputs=INPUTS)
        source_model = SourceModel(settings, work / "checkpoint")
        building.save(building.build(settings), work / "checkpoint", {})
        cases = inputs.generate([item.spec() for item in settings.inputs], seed=0, max_batch=4)
        batches = [case.inputs for case in cases[:3]]
        base = Candidate("exported", "test", "paddle", "float32", 1, (settings.inputs[0].spec(),), (), {"kind": "tensors"}, "", "")
        exporting.export(source_model, work / "exported", base, probes=batches, timeout_s=100)
        converter = Converter(
            work / "exported", work / "scratch", threads=1, probe=batches[0], timeout_s=100, source_model=source_model, batches=batches
        )
        outcomes = [converter.make(kind, work / kind) for kind in KINDS]
    sys.modules.pop("their_weights", None)
    assert all(outcome.made for outcome in outcomes), [outcome.reason for outcome in outcomes]
    return work


@pytest.fixture
def copy(made, tmp_path):
    """Copy a candidate, to be spoilt; what saves it lets its hashes fit again, so that the content must tell."""

    def make(kind):
        shutil.copytree(made / kind, tmp_path / kind)
        return tmp_path / kind

    return make


def weigh(made, folder, checkpoint=None):
    Candidate.load(folder).save(folder)
    return WeightsWorker(checkpoint or made / "checkpoint", made / "exported").compare(folder)


def spoil(folder, name, change):
    """Change one tensor in the files of a candidate."""
    candidate = Candidate.load(folder)
    if (folder / "model.onnx").exists():
        program = onnx.load(str(folder / "model.onnx"))
        (node,) = [node for node in program.graph.node if node.output[0] == name]
        array = change(numpy_helper.to_array(node.attribute[0].t).copy())
        node.attribute[0].t.CopyFrom(numpy_helper.from_array(array, name))
        onnx.save(program, str(folder / "model.onnx"))
    else:
        before = paddle_files.read(folder)[name].values
        content = (folder / "model.pdiparams").read_bytes()
        assert content.count(before.tobytes()) == 1
        (folder / "model.pdiparams").write_bytes(content.replace(before.tobytes(), change(before.copy()).tobytes()))
    candidate.save(folder)


def name_of(made, key):
    return tensor_names.read(made / "exported")[key]


@pytest.mark.parametrize("kind", ["exported", "paddle", "onnxruntime", "openvino"])
def test_honest_files_hold_every_weight_in_its_place(made, kind):
    compared_weights = weigh(made, made / kind)
    unused = 45 / compared_weights.total
    assert compared_weights.findings == ()
    assert compared_weights.left() == {weight_comparison.UNUSED: unused}
    assert compared_weights.compared_share == pytest.approx(1 - unused)
    assert compared_weights.exact == compared_weights.total - 45 - DERIVED
    assert compared_weights.extra == 64 + 64 + 8 + 8  # what they made, the table and the plain tensor


def test_a_lower_precision_is_compared_in_its_own_way(made):
    pruned, dynamic, quantised = (weigh(made, made / kind) for kind in ("paddle-pruned", "onnxruntime-int8-dynamic", "openvino-int8"))
    assert (pruned.findings, dynamic.findings, quantised.findings) == ((), (), ())
    assert pruned.exact < pruned.compared == weigh(made, made / "paddle").compared - DERIVED
    assert pruned.left()[weight_comparison.UNPLACED] == 8 / pruned.total  # the buffer, whose name only counts
    for compared_weights in (dynamic, quantised):
        assert (
            compared_weights.compared + sum(one.count for one in compared_weights.not_compared if one.why != weight_comparison.UNPLACED)
            == compared_weights.total
        )
        assert {weight_comparison.UNUSED} < set(compared_weights.left())


@pytest.mark.parametrize(("precision", "problem"), [("float16", None), ("float32", "weights-differ")])
def test_weights_in_float16_are_compared_up_to_their_rounding_and_refused_where_float32_is_promised(made, tmp_path, precision, problem):
    (tmp_path / "half").mkdir()
    ids = {"ids": np.arange(20).reshape(2, 10)}
    half_precision.convert(made / "onnxruntime", tmp_path / "half", [ids])
    name = "onnxruntime-cuda-float16" if precision == "float16" else "onnxruntime-cuda"
    own = replace(Candidate.load(made / "onnxruntime"), name=name, runtime="onnxruntime-cuda", precision=precision)
    own.save(tmp_path / "half")
    compared = weigh(made, tmp_path / "half")
    assert [finding.kind for finding in compared.findings] == ([problem] if problem else [])
    if not problem:
        assert compared.compared_share == pytest.approx(weigh(made, made / "onnxruntime").compared_share)
        spoil(tmp_path / "half", name_of(made, "one.weight"), lambda array: np.nextafter(np.nextafter(array, np.float16(9)), np.float16(9)))
        (finding,) = weigh(made, tmp_path / "half").findings
        assert finding.layer == "one"


@pytest.mark.parametrize("kind", ["paddle", "onnxruntime"])
def test_exchanged_weights_of_two_equal_layers_are_refused(made, copy, kind):
    folder = copy(kind)
    own = load_file(made / "checkpoint" / layers.WEIGHTS)
    spoil(folder, name_of(made, "one.weight"), lambda _: own["two.weight"] * np.float32(1))
    marker = np.full((8, 8), 7, np.float32)
    spoil(folder, name_of(made, "two.weight"), lambda _: marker) if kind == "onnxruntime" else None
    words = [finding.message for finding in weigh(made, folder).findings]
    assert "one.weight holds the numbers of two.weight: the two were exchanged or one was repeated" in words


@pytest.mark.parametrize("kind", ["paddle", "onnxruntime", "openvino"])
def test_rows_of_rare_ids_that_moved_by_one_are_refused(made, copy, kind):
    folder = copy(kind)
    spoil(folder, name_of(made, "embed.weight"), lambda array: np.concatenate([array[:30], np.roll(array[30:], 1, axis=0)]))
    (finding,) = weigh(made, folder).findings
    assert (finding.kind, finding.layer) == ("weights-differ", "embed")
    assert "slices in another order along axis 0 (30, 31, 32" in finding.message


def test_a_channel_of_zeros_in_the_onnx_file_is_refused(made, copy):
    def silence(array):
        array[3] = 0
        return array

    folder = copy("onnxruntime")
    spoil(folder, name_of(made, "conv.weight"), silence)
    (finding,) = weigh(made, folder).findings
    assert finding.message == "conv.weight is zero along axis 0 at 3, and the checkpoint is not"


@pytest.mark.parametrize("key", ["normed.weight", "spectral.weight"])
def test_a_derived_weight_that_was_changed_is_refused(made, copy, key):
    folder = copy("onnxruntime")
    spoil(folder, name_of(made, key), lambda array: array * np.float32(1.01))
    assert f"is not what {key} was derived from" in weigh(made, folder).findings[0].message


def test_a_constant_of_the_code_that_was_changed_is_refused(made, copy):
    folder = copy("onnxruntime")
    spoil(folder, name_of(made, "table"), lambda array: array[::-1].copy())
    assert weigh(made, folder).findings[0].message.startswith("table ")


@pytest.mark.parametrize(
    "kind", ["paddle", "onnxruntime", "openvino-int8", "onnxruntime-int8-dynamic", "onnxruntime-int8-dynamic-per-tensor"]
)
def test_a_stale_checkpoint_is_refused(made, tmp_path, kind):
    own = load_file(made / "checkpoint" / layers.WEIGHTS)
    random = np.random.default_rng(0)
    other = {name: array + random.normal(size=array.shape).astype(np.float32) for name, array in own.items()}
    shutil.copytree(made / "checkpoint", tmp_path / "other")
    save_file({name: np.ascontiguousarray(array) for name, array in other.items()}, tmp_path / "other" / layers.WEIGHTS)
    (finding, *more) = weigh(made, made / kind, tmp_path / "other").findings
    assert finding.kind == "weights-differ"
    assert more or "made from another one" in finding.message


@pytest.mark.parametrize(("kind", "file"), [("paddle", "model.pdiparams"), ("onnxruntime", "model.onnx")])
def test_a_truncated_file_is_refused_with_what_is_wrong(made, copy, kind, file):
    folder = copy(kind)
    candidate = Candidate.load(folder)
    content = (folder / file).read_bytes()
    (folder / file).write_bytes(content[: len(content) * 2 // 3])
    candidate.save(folder)
    compared_weights = candidate_files.compare(WeightFiles(made / "checkpoint", made / "exported", {kind: folder}), timeout_s=60)
    assert compared_weights[EXPORTED]
    assert not compared_weights[kind]
    (problem,) = compared_weights[kind].problems()
    assert problem.kind == "weights-differ"
    assert file in problem.message
    assert "ends within '" in problem.message or "cannot be read" in problem.message


def test_a_parameter_file_of_another_program_is_refused(made, copy):
    folder = copy("paddle")
    content = (folder / "model.pdiparams").read_bytes()
    (folder / "model.pdiparams").write_bytes(content + b"more")
    with pytest.raises(CandidateError, match="4 bytes after the last tensor"):
        paddle_files.read(folder)
    random = np.random.default_rng(0)
    for garbage in (content[200:], *(random.bytes(len(content)) for _ in range(20)), b"\xff" * len(content), b"\x12" * len(content)):
        (folder / "model.pdiparams").write_bytes(garbage)
        with pytest.raises(CandidateError, match=r"another tensor|ends"):
            paddle_files.read(folder)


def test_an_exported_program_without_names_says_what_to_run(made, tmp_path):
    shutil.copytree(made / "exported", tmp_path / "exported")
    (tmp_path / "exported" / tensor_names.FILE).unlink()
    compared_weights = candidate_files.compare(
        WeightFiles(made / "checkpoint", tmp_path / "exported", {"paddle": made / "paddle"}), timeout_s=60
    )
    assert "run `paddleship run --again export`" in compared_weights["paddle"].unread


def test_the_eager_candidate_is_compared_by_key(made, tmp_path):
    shutil.copyfile(made / "checkpoint" / layers.WEIGHTS, tmp_path / layers.WEIGHTS)
    base = Candidate.load(made / "paddle")
    replace(base, name="paddle-eager", runtime="paddle-eager").save(tmp_path)
    assert weigh(made, tmp_path).exact_share == 1
    own = load_file(tmp_path / layers.WEIGHTS)
    own["one.weight"], own["two.weight"] = own["two.weight"], own["one.weight"]
    save_file(own, tmp_path / layers.WEIGHTS)
    replace(base, name="paddle-eager", runtime="paddle-eager").save(tmp_path)
    assert len(weigh(made, tmp_path).findings) >= 2


def test_files_that_nothing_reads_are_named_as_not_compared_and_are_no_failure(made, monkeypatch):
    blind = Registered(replace(registry.of("paddle"), weights=""), "here")
    others = registry.found()
    monkeypatch.setattr(registry, "found", lambda: {**others, "paddle": blind})
    compared_weights = weigh(made, made / "paddle")
    assert (bool(compared_weights), compared_weights.compared_share, compared_weights.problems()) == (False, 0.0, [])
    assert compared_weights.to_dict()["not_in_place"] == {weight_comparison.NO_READER: {"share": 1.0, "names": [], "tensors": 0}}
    judgement = hold_to_checkpoint(Judgement({}, []), compared_weights)
    assert judgement.checks == []
    assert [(finding.kind, finding.severity) for finding in judgement.findings] == [("weights-not-compared", "warning")]
