"""Candidates of small exported models in every runtime: what is made, what is a row with its reason, and what is shared."""

import os
import re
import subprocess
import sys
import time

import numpy as np
import paddle
import pytest
from safetensors.numpy import load_file

from paddleship import isolate, model, runtimes
from paddleship.candidate import Candidate
from paddleship.catalogue import KINDS
from paddleship.conversion import calibration, converting, exporting
from paddleship.conversion.converting import Workshop
from paddleship.eager import Eager, Subject
from paddleship.params import Model, Verify
from paddleship.proof import evidence, inputs, parity

SOURCE = """
import paddle
from paddle import nn

class Digits(nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))

    def forward(self, x):
        return self.body(x)

class Pictures(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2D(1, 8, 3, padding=1)
        self.second = nn.Conv2D(8, 8, 3, padding=1)
        self.output = nn.Linear(8, 4)

    def forward(self, x):
        y = nn.functional.relu(self.first(x.reshape([-1, 1, 4, 4])))
        y = nn.functional.relu(self.second(y) + y)
        return self.output(y.mean([2, 3]))

class Pair(nn.Layer):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 16)
        self.output = nn.Linear(16, 4)

    def forward(self, x, ids):
        y = self.table(ids).mean(1) + x
        return {"scores": self.output(y), "sum": y.sum(1)}

class Squares(nn.Layer):
    def __init__(self):
        super().__init__()
        self.scale = self.create_parameter([1])

    def forward(self, x):
        return (x * x).sum(1) + self.scale

class Angles(Digits):
    def forward(self, x):
        return paddle.logit(nn.functional.sigmoid(self.body(x)), 0.01)

class Cell(nn.Layer):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(16, 4)

    def forward(self, x):
        return self.cell(x, x[:, :4])[0]

class Rounds(nn.Layer):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(16, 16)

    def forward(self, x):
        count = paddle.zeros([1], dtype="int64")
        while count < 3 + 0 * x.shape[0]:
            x = nn.functional.tanh(self.mix(x))
            count = count + 1
        return x

class Narrow(nn.Layer):
    def __init__(self):
        super().__init__()
        self.output = nn.Linear(2, 4)

    def forward(self, x):
        return self.output(x[:, :2])

class Lean(Digits):
    def __init__(self):
        super().__init__()
        for layer in (self.body[0], self.body[2]):
            size = paddle.to_tensor([1.0, 0.01, 1.0, 0.01]).tile([layer.weight.shape[0] // 4]).unsqueeze(1)
            layer.weight.set_value(layer.weight * size)

class Rows(Digits):
    def forward(self, x):
        import numpy as np
        weights = paddle.to_tensor(np.arange(x.shape[0], dtype="float32")) * 0 + 1
        return self.body(x) * weights.unsqueeze(1)
"""
X = {"name": "x", "dtype": "float32", "shape": ["batch", 16]}
IDS = {"name": "ids", "dtype": "int64", "shape": ["batch", "length"], "low": 0, "high": 9}
INT8 = [name for name, kind in KINDS.items() if kind.precision == "int8" and kind.packages]
PLAIN = [name for name, kind in KINDS.items() if kind.precision == "float32" and kind.packages]


@pytest.fixture(scope="module", autouse=True)
def theirs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "their_candidates.py").write_text(SOURCE)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    sys.modules.pop("their_candidates", None)


@pytest.fixture(scope="module")
def subject_of(theirs):
    """A model of theirs with fresh weights, and its exported program in `exported` beside the checkpoint."""
    made = {}

    def make(name, **sizes):
        if name not in made:
            settings = Model(factory=f"their_candidates:{name}", inputs=[X, IDS] if name == "Pair" else [X])
            folder = theirs / name
            (folder / "exported").mkdir(parents=True)
            paddle.seed(7)
            model.save(model.build(settings), folder / "checkpoint", {})
            subject = Subject(settings, folder / "checkpoint")
            specs = tuple(item.spec() for item in settings.inputs)
            base = Candidate("paddle", "theirs", "paddle", "float32", 1, specs, (), {"kind": "tensors"}, "", "classification")
            probes = [batch(2), batch(3)]
            exporting.export(subject, folder / "exported", base, probes=probes, timeout_s=100, sizes=lambda: sizes)
            made[name] = subject
        return made[name]

    return make


@pytest.fixture
def workshop_of(subject_of, tmp_path):
    def make(name, *, batches=None, timeout_s=100, sizes=None, **settings):
        exported = subject_of(name, **(sizes or {})).checkpoint.parent / "exported"
        (tmp_path / "scratch").mkdir()
        rows = [batch(4, seed) for seed in range(16)] if batches is None else batches
        return Workshop(exported, tmp_path / "scratch", threads=1, probe=batch(2), timeout_s=timeout_s, batches=rows, **settings)

    return make


def batch(size, seed=0, scale=1.0):
    random = np.random.default_rng(seed)
    x = random.normal(size=(size, 16)).astype(np.float32) * np.float32(scale)
    return {"x": x, "ids": random.integers(0, 10, (size, 5))}


def ask(load, *arguments, batches):
    with isolate.Isolated("asked", load, *arguments, timeout_s=100) as child:
        return [child.call("run", inputs) for inputs in batches]


@pytest.mark.parametrize(("name", "candidates"), [("Pair", [*PLAIN, *INT8]), ("Pictures", ["onnxruntime-int8", "openvino-int8"])])
def test_candidates_are_made_and_answer_as_their_precision_allows(subject_of, workshop_of, tmp_path, name, candidates):
    workshop, asked = workshop_of(name), [batch(1, 91), batch(7, 92)]
    expected = ask(Eager, subject_of(name), batches=asked)
    for candidate in candidates:
        outcome = workshop.make(candidate, tmp_path / candidate)
        assert outcome.made, f"{candidate}: {outcome.reason}"
        made = Candidate.load(tmp_path / candidate)
        assert (made.runtime, made.precision) == (KINDS[candidate].runtime, KINDS[candidate].precision)
        for answer, right in zip(ask(runtimes.load, tmp_path / candidate, batches=asked), expected, strict=True):
            assert list(answer) == list(right)
            for key, array in right.items():
                assert (answer[key].shape, answer[key].dtype) == (array.shape, array.dtype)
                size = max(np.abs(one[key]).max() for one in expected)  # of one answer alone it may be next to 0
                loose = 0.3 * size if made.precision == "int8" else 1e-5
                np.testing.assert_allclose(answer[key], array, atol=loose, rtol=1e-5)


def test_the_conversion_to_onnx_is_done_once_and_shared(workshop_of, tmp_path):
    workshop = workshop_of("Digits")
    for name in PLAIN:
        assert workshop.make(name, tmp_path / name).made
    assert len({(tmp_path / name / "model.onnx").read_bytes() for name in PLAIN}) == 1
    assert [path.name for path in (tmp_path / "scratch").iterdir()] == ["onnx"]


def test_an_operator_that_a_runtime_does_not_take_is_a_row_and_the_others_are_made(workshop_of, tmp_path):
    workshop = workshop_of("Angles")
    rows = {name: workshop.make(name, tmp_path / name) for name in ("onnxruntime", "paddle", "openvino", "openvino-int8")}
    assert [name for name, row in rows.items() if row.made] == ["paddle"]
    assert [path.name for path in tmp_path.iterdir() if path.name != "scratch"] == ["paddle"]


def test_a_program_that_the_converter_dies_of_is_tried_once_and_is_a_row_for_each_that_needs_it(workshop_of, tmp_path, monkeypatch):
    workshop = workshop_of("Digits")
    monkeypatch.setattr(converting, "_to_onnx", crash)
    first = workshop.make("onnxruntime", tmp_path / "onnxruntime")
    assert first.reason.startswith("the conversion to ONNX died of SIGABRT")
    monkeypatch.setattr(converting, "_to_onnx", hang)
    for name in ("openvino", "openvino-int8", "onnxruntime-int8"):
        assert workshop.make(name, tmp_path / name).reason == first.reason


@pytest.mark.parametrize("name", ["onnxruntime-int8", "openvino"])
def test_a_model_of_fixed_sizes_has_one_program_for_each(subject_of, workshop_of, tmp_path, name):
    workshop = workshop_of("Rows", sizes={"batch": [1, 4]})
    outcome = workshop.make(name, tmp_path / name)
    assert outcome.made, outcome.reason
    assert len(Candidate.load(tmp_path / name).programs) == 2
    asked = [batch(1, 91), batch(3, 92), batch(9, 93)]
    expected = ask(Eager, subject_of("Rows"), batches=asked)
    for answer, right in zip(ask(runtimes.load, tmp_path / name, batches=asked), expected, strict=True):
        (array,), (exact,) = answer.values(), right.values()
        np.testing.assert_allclose(array, exact, atol=0.3 * np.abs(exact).max())


@pytest.mark.parametrize(("name", "sizes"), [("Digits", {}), ("Rows", {"batch": [1, 4]})], ids=["any size", "fixed sizes"])
def test_a_pruned_program_answers_as_if_the_two_smallest_of_each_four_weights_were_zero(subject_of, workshop_of, tmp_path, name, sizes):
    subject = subject_of(name, **sizes)
    outcome = workshop_of(name, sizes=sizes, subject=subject).make("paddle-pruned", tmp_path / "pruned")
    assert outcome.made, outcome.reason
    assert len(Candidate.load(tmp_path / "pruned").programs) == len(sizes.get("batch", []))
    own = load_file(subject.checkpoint / model.WEIGHTS)
    asked = [batch(1, 91), batch(3, 92), batch(9, 93)]
    for inputs_, answer in zip(asked, ask(runtimes.load, tmp_path / "pruned", batches=asked), strict=True):
        hidden = np.maximum(inputs_["x"] @ pruned(own["body.0.weight"]) + own["body.0.bias"], 0)
        right = hidden @ pruned(own["body.2.weight"]) + own["body.2.bias"]
        np.testing.assert_allclose(answer["output"], right, atol=1e-5)


def test_what_a_pruned_program_holds_is_half_zeros_in_fours_and_the_checkpoint_else(subject_of, workshop_of, tmp_path):
    subject = subject_of("Pictures")
    assert workshop_of("Pictures", subject=subject).make("paddle-pruned", tmp_path / "pruned").made
    held = [value.numpy() for value in paddle.jit.load(str(tmp_path / "pruned/model")).state_dict().values()]
    own = load_file(subject.checkpoint / model.WEIGHTS)
    changed = {"second.weight": np.moveaxis(own["second.weight"], 1, 0), "output.weight": own["output.weight"]}
    right = own | {name: pruned(array) for name, array in changed.items()}
    right["second.weight"] = np.moveaxis(right["second.weight"], 0, 1)
    assert {name for name in own if not any(np.array_equal(right[name], array) for array in held)} == set()
    assert len(held) == len(own)


def pruned(weights):
    """Without the two smallest of each four along the first axis."""
    fours = weights.reshape(-1, 4, *weights.shape[1:])
    kept = np.abs(fours).argsort(1).argsort(1) >= 2
    return (fours * kept).reshape(weights.shape)


@pytest.mark.parametrize(
    ("name", "subject", "words"),
    [
        ("paddle-pruned", "Squares", "that it prunes: it takes Linear and Conv2D, unless a ParamAttr names their weights"),
        ("paddle-pruned", "Narrow", "that it prunes: every Linear and Conv2D here sums fewer than four weights"),
        ("paddle-int8", "Squares", "that it quantises"),
    ],
)
def test_a_model_in_which_paddle_finds_no_layer_to_change_is_a_row(subject_of, workshop_of, tmp_path, name, subject, words):
    outcome = workshop_of(subject, subject=subject_of(subject)).make(name, tmp_path / name)
    assert not outcome.made
    assert outcome.reason == f"Paddle found no layer in this model {words}"


@pytest.mark.parametrize("name", ["paddle-int8", "paddle-pruned"])
def test_without_the_eager_model_what_is_made_of_it_is_a_row(workshop_of, tmp_path, name):
    assert "only the eager model itself, which is not at hand here" in workshop_of("Digits").make(name, tmp_path / name).reason


@pytest.mark.parametrize("name", INT8)
def test_a_model_without_anything_to_quantise_is_a_row(workshop_of, tmp_path, name):
    outcome = workshop_of("Squares").make(name, tmp_path / name)
    assert not outcome.made
    assert "nothing in this model can be quantised" in outcome.reason


@pytest.mark.parametrize("name", ["onnxruntime-int8-dynamic", "onnxruntime-int8"])
def test_a_model_whose_products_all_lie_in_a_loop_says_where_they_are(workshop_of, tmp_path, name):
    outcome = workshop_of("Rounds").make(name, tmp_path / name)
    assert not outcome.made
    assert re.search("its (MatMul|Gemm) lie in the body of an ONNX Loop or If", outcome.reason)


@pytest.mark.parametrize(
    ("name", "subject", "words"),
    [
        ("paddle-int8", "Digits", "cannot quantise this model and export it: it takes no dynamic dimension"),
        ("paddle-int8", "Cell", "cannot quantise this model and export it: AbsmaxObserverLayer.forward()"),
        ("paddle-gpu", "Digits", "built for CPUs"),
        ("paddle-tensorrt-fp16", "Digits", "built for CPUs"),
    ],
)
def test_what_this_paddle_cannot_do_is_a_row_in_plain_words(subject_of, workshop_of, tmp_path, name, subject, words):
    outcome = workshop_of(subject, subject=subject_of(subject)).make(name, tmp_path / name)
    assert not outcome.made
    assert words in outcome.reason


def test_int8_without_rows_to_calibrate_on_is_a_row(workshop_of, tmp_path):
    outcome = workshop_of("Digits", batches=[]).make("onnxruntime-int8", tmp_path / "onnxruntime-int8")
    assert "no row of the training part" in outcome.reason


@pytest.mark.parametrize("name", ["onnxruntime-int8", "openvino-int8"])
@pytest.mark.parametrize(("scale", "proven"), [(1.0, True), (0.01, False)], ids=["calibrated on its rows", "calibrated on others"])
def test_int8_is_judged_by_its_decisions_and_refused_when_badly_calibrated(subject_of, workshop_of, tmp_path, name, scale, proven):
    subject = subject_of("Digits")
    outcome = workshop_of("Digits", batches=[batch(4, seed, scale) for seed in range(16)]).make(name, tmp_path / name)
    assert outcome.made, outcome.reason
    judgement = judged(subject, tmp_path / name)
    assert bool(judgement) is proven
    assert {check.name for check in judgement.checks} == {"flip_rate_high", "metric_drop_high"}
    if not proven:
        assert judgement.metrics["flip_rate"] > 0.15


@pytest.mark.parametrize(("name", "proven"), [("Lean", True), ("Digits", False)], ids=["half of the weights are small", "none is"])
def test_a_pruned_model_is_judged_by_its_decisions_and_refused_where_it_needs_the_weights(subject_of, workshop_of, tmp_path, name, proven):
    outcome = workshop_of(name, subject=subject_of(name)).make("paddle-pruned", tmp_path / "pruned")
    assert outcome.made, outcome.reason
    judgement = judged(subject_of(name), tmp_path / "pruned")
    assert bool(judgement) is proven
    assert {check.name for check in judgement.checks} == {"flip_rate_high", "metric_drop_high"}
    assert judgement.metrics["noise_ratio"] > 1000  # other digits than eager's, in both


def judged(subject, folder):
    """The judgement on a candidate whose labels are eager's own decisions."""
    examples = [{"x": row} for row in batch(512, 99)["x"]]
    cases = inputs.from_rows(examples, [item.spec() for item in subject.model.inputs], collate, max_batch=64)
    asked = [case.inputs for case in cases]
    reference = ask(Eager, subject, batches=asked)
    truth = [{key: array.astype(np.float64) for key, array in answer.items()} for answer in reference]
    labels = np.concatenate([answer["output"].argmax(-1) for answer in ask(Eager, subject, batches=[collate(examples)])])
    known = evidence.gather(cases, reference, truth, task="classification", labels=labels)
    told = ask(runtimes.load, folder, batches=asked)
    limits = Verify(max_flip_rate=0.08, max_metric_drop=0.08)  # fresh weights decide by a hair
    return parity.judge(known, told, limits=limits, precision=Candidate.load(folder).precision)


def collate(examples):
    return {"x": np.stack([example["x"] for example in examples])}


def hang(source, target, batches):
    time.sleep(60)


def crash(source, target, batches):
    os.abort()


def install(source, target, batches):
    subprocess.run([sys.executable, "-m", "pip", "install", "nothing"], check=False)


@pytest.mark.parametrize(
    ("maker", "words"),
    [
        (hang, "did not answer in 5 s"),
        (crash, "the conversion to paddle died of SIGABRT"),
        (install, "would install packages at run time"),
    ],
    ids=["hangs", "crashes", "runs pip"],
)
def test_a_maker_that_misbehaves_is_a_row_and_leaves_nothing(workshop_of, tmp_path, monkeypatch, maker, words):
    monkeypatch.setitem(converting._MAKERS, "paddle", maker)
    outcome = workshop_of("Digits", timeout_s=5 if maker is hang else 100).make("paddle", tmp_path / "paddle")
    assert words in outcome.reason
    assert not (tmp_path / "paddle").exists()


def test_openvino_finds_nobody_to_report_to():
    script = (
        "import sys; from paddleship.runtimes import openvino; talk = []; "
        "sys.addaudithook(lambda event, _: talk.append(event) if event.startswith(('socket.', 'urllib.')) else None); "
        "openvino.module(); import nncf; print(sys.modules['openvino_telemetry'], talk)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["None", "[]"]


def test_calibration_takes_only_rows_that_a_fixed_program_can_hold(subject_of):
    specs = [item.spec() for item in subject_of("Pair").model.inputs]
    given = [{"x": np.ones((2, 16), np.float32), "ids": np.ones((2, length), np.int64)} for length in (3, 8, 9)]
    assert calibration.fitting(given, specs, {}) == given
    found = calibration.fitting(given, specs, {"batch": 4, "length": 8})
    assert [batch["ids"].shape for batch in found] == [(4, 8)] * 4
    assert found[0]["ids"][0].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
