"""The doctor finds what is wrong with a model, at its line, and nothing on a healthy one."""

import functools
import re
import sys

import pytest

from paddleship.config.sections.model import Model
from paddleship.config.sections.verify import Verify
from paddleship.doctor import examining, graph_breaks, messages
from paddleship.doctor.examination import Examination, RuntimeRow
from paddleship.errors import OutOfTime
from paddleship.proof import proving
from paddleship.reports.finding import Finding

MODELS = """
import os
import time
import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.common_ops_import import LayerHelper

CALLS = 0

class Base(nn.Layer):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 4)

class Healthy(Base):
    def forward(self, x):
        if x.mean() > 0:
            return self.head(x)
        return self.head(x) - float(x.max())

class Remembers(Base):
    def forward(self, x):
        if not hasattr(self, "scale"):
            self.scale = x.abs().mean()  # <- stale-tensor
        return self.head(x) * self.scale

class Counts(Base):
    def forward(self, x):
        global CALLS
        CALLS += 1  # <- global-state
        return self.head(x) * CALLS

class Drops(Base):
    def forward(self, x):
        return F.dropout(self.head(x), 0.5)  # <- random-forward

class TrainsAgain(nn.Layer):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1D(8)
    def forward(self, x):
        self.norm.train()  # <- train-mode
        return self.norm(x)

class PlainList(nn.Layer):
    def __init__(self):
        super().__init__()
        self.parts = [nn.Linear(8, 8), nn.Linear(8, 4)]  # <- unregistered-layer
    def forward(self, x):
        return self.parts[1](self.parts[0](x))

class MakesLayer(Base):
    def forward(self, x):
        return self.head(nn.Linear(8, 8)(x))  # <- layer-in-forward

class MakesWeight(Base):
    def forward(self, x):
        bias = paddle.create_parameter([4], "float32")  # <- layer-in-forward
        return self.head(x) + sum([bias, bias])

class SameName(nn.Layer):
    def __init__(self):
        super().__init__()
        parts = []
        for _ in range(2):
            parts.append(nn.Linear(8, 8))
            self.add_sublayer("part", parts[-1])  # <- shared-name
        self.first = parts[0].forward
    def forward(self, x):
        return self.part(self.first(x))

class Replaces(Base):
    def forward(self, x):
        self.head.weight.clip_(-0.1, 0.1)  # <- parameter-assignment
        return self.head(x)

class Largest(Base):
    def forward(self, x):
        y = self.head(x)
        return y * max(y.mean(), y.max())  # <- python-value

class Sometimes(Base):
    def forward(self, x):
        if x.mean() > 0:  # <- branch-mismatch
            y = (self.head(x) > 0).astype("int64")
        else:
            y = self.head(x)
        return y

class ByRank(Base):
    def forward(self, x):
        y = self.head(x)
        if x.shape[0] > 2:  # <- dynamic-shape-branch
            y = y.sum(0)
        return y

class LeavesLoop(Base):
    def forward(self, x):
        y = self.head(x)
        for _ in range(9):  # <- graph-break
            y = y * 0.9
            if y.max() < 0.5:
                break
        return y

class LeavesInnerLoop(Base):
    def forward(self, x):
        return self.rounds(self.head(x))
    def rounds(self, y):
        for _ in range(9):  # <- graph-break
            y = y * 0.9
            if y.max() < 0.5:
                break
        return y

class EagerOnly(Base):
    def forward(self, x):
        if paddle.in_dynamic_mode():  # <- frozen-branch
            x = x * 2
        return self.head(x)

class Star(Base):
    def forward(self, *args):  # <- signature
        return self.head(args[0])

class Narrow(Base):
    def forward(self, x):
        return self.head(x[:, :7])  # <- bad-model

class Diverged(Base):
    def __init__(self):
        super().__init__()
        self.head.weight.set_value(self.head.weight * float("nan"))  # <- nan-weights
    def forward(self, x):
        return self.head(x)

class SaysNothing(Base):
    def forward(self, x):  # <- bad-model
        return self.head(x), paddle.log(-self.head(x).abs() - 1)

class LeavesOut(Base):
    def forward(self, x):
        h = self.head(x)
        return paddle.where(h > 0, h, paddle.full_like(h, -float("inf")))

class TwoInputs(Base):
    def forward(self, x, y):  # <- unused-input
        return self.head(x)

class ForOldGraphs(Base):
    def forward(self, x, y):
        if paddle.in_dynamic_mode():
            return F.relu(self.head(x))
        helper = LayerHelper("relu")
        out = helper.create_variable_for_type_inference(dtype="float32")
        helper.append_op(type="relu", inputs={"X": self.head(x)}, outputs={"Out": out})  # <- graph-break
        return out

class NumberAsText(Base):
    def forward(self, x):
        return self.head(x) + paddle.triu(paddle.full([4, 4], "-inf"), diagonal=1)[0]  # <- graph-break

class TurnsList(Base):
    def forward(self, x):
        parts = []
        for i in range(paddle.to_tensor(3)):
            parts.append(self.head(x) * i)
        parts = parts[::-1]  # <- graph-break
        return parts[0]

class GroupsOfRows(Base):
    def forward(self, x):
        rows = x.shape[0]
        weight = self.head(x).reshape([-1, 1, 1])
        return F.conv1d(x.reshape([1, -1, 2]), weight, groups=4 * rows).reshape([-1, 8])  # <- python-value

class Suppresses(Base):
    def forward(self, x):
        corner = x.reshape([-1, 4, 2])
        boxes = paddle.concat([corner, corner + corner.abs() + 1], axis=-1)
        scores = F.sigmoid(x.reshape([-1, 2, 4]))
        kept, _, counts = paddle._C_ops.multiclass_nms3(boxes, scores, None, 0.0, 4, 4, 0.9, False, 1.0, -1)
        return kept, counts

class NoMatch(Base):
    def forward(self, x, y, z):  # <- bad-model
        return self.head(x + y + z)

class CallsItselfTraining(Base):
    def forward(self, x):
        self.training = True  # and nothing in it minds
        return self.head(x)

class Tells(Base):
    def forward(self, x, y):
        return {"scores": self.head(x) * y.mean(), "unit": "metres", "n": 3}

class Reports(Base):
    def forward(self, x):
        return self.head(x), float(x.max())

class Gathers(Base):
    def forward(self, batch, states, mask):
        y = self.head(batch["x"]) + sum(state.sum() for state in states)
        return y if mask is None else y * mask

class DiesOfSizes(Base):
    def forward(self, x):
        if x.shape[1] == 7:
            import ctypes
            ctypes.string_at(0)
        return self.head(x.sum(1))

class Packs(nn.Layer):
    def __init__(self):
        super().__init__()
        self.embed, self.gru, self.out = nn.Embedding(20, 8), nn.GRU(8, 8), nn.Linear(8, 3)
    def forward(self, words, lengths):
        return self.out(self.gru(self.embed(words), sequence_length=lengths)[1][-1])

def packs_late():
    slept = os.path.join(os.path.dirname(__file__), "slept")
    if not os.path.exists(slept):
        open(slept, "w").close()
        time.sleep(60)
    return Packs()

def packs_slowly():
    time.sleep(60)
    return Packs()

class OneGraph(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(5, 8), nn.Linear(8, 2)
    def forward(self, vertices, sources, step):
        hidden = self.first(vertices)
        return self.out(hidden + hidden.index_select(sources).mean(0)) * (1 + step)

class TimeFirst(Base):
    def forward(self, x, scale):
        return self.head(x).cumsum(0) * scale

class ReadsClock(Base):
    def forward(self, x):
        return self.head(x) * (1 + time.time() % 60)  # reads it

class ReadsVariable(Base):
    def forward(self, x):
        return self.head(x) * float(os.environ.get("THEIR_SCALE", "1.0"))  # reads it

class CountsCalls(Base):
    calls = 0
    def forward(self, x):
        self.calls += 1  # reads it
        return self.head(x) * (1.0 if self.calls < 60 else 2.0)

def mute():
    layer = Healthy()
    layer.forward = lambda x: None
    return layer

def ends():
    raise SystemExit(3)

class NeverEnds(Base):
    def forward(self, x):
        rounds = paddle.zeros([1])
        step = 1.0 if isinstance(x, paddle.Tensor) else 0.0
        while rounds.sum() < 3:
            rounds = rounds + step
        return self.head(x) * rounds

def not_a_layer():
    return 7
"""
ONE = [{"name": "x", "dtype": "float32", "shape": ["batch", 8]}]
TWO = [*ONE, {"name": "y", "dtype": "float32", "shape": ["batch", 8]}]
NO_LINE = {"nan-weights"}


@pytest.fixture(scope="module", autouse=True)
def their_package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "their_clinic.py").write_text(MODELS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(examining.exercising, "SECONDS", 2.0)  # of the search for weights with which an output varies
        yield
    sys.modules.pop("their_clinic", None)


@pytest.fixture(scope="module")
def examined(tmp_path_factory):
    """The examination of a model that has a mark, made once."""

    @functools.cache
    def find(name):
        inputs = {"TwoInputs": TWO, "ForOldGraphs": TWO, "NoMatch": TWO}.get(name, ONE)
        return examine(tmp_path_factory.mktemp(name), name, inputs, candidates=("paddle",))

    return find


def examine(tmp_path, name, inputs=ONE, **options):
    return examining.examine(Model(factory=f"their_clinic:{name}", inputs=inputs), work=tmp_path / "work", **{"seconds": 600, **options})


def marks():
    """(class, kind, line) of every marked line of MODELS."""
    owner, found = "", []
    for number, line in enumerate(MODELS.splitlines(), start=1):
        if opened := re.match(r"class (\w+)", line):
            owner = opened[1]
        if mark := re.search(r"# <- ([a-z-]+)", line):
            found.append((owner, mark[1], number))
    return found


@pytest.mark.slow
def test_a_candidate_that_hangs_is_a_row_and_a_finding(tmp_path):
    found = examine(tmp_path, "NeverEnds", candidates=("paddle",), settings=Verify(timeout_s=15))
    assert found.runtimes["paddle"].status == "not made"
    assert "did not answer in 15 s" in found.runtimes["paddle"].reason
    (hang,) = [finding for finding in found.findings if finding.kind == "hang"]
    assert hang.severity == "error"
    assert "paddle cannot be made" in hang.message
    assert found.exit_code == 2


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "line"), marks())
def test_each_trap_is_named_at_its_line(examined, name, kind, line):
    found = examined(name)
    first = found.findings[0]
    assert first.severity == "error"
    assert first.kind == kind
    if kind not in NO_LINE:
        assert first.where is not None
        assert first.where.endswith(f"their_clinic.py:{line}")
    assert first.advice or kind == "bad-model"
    assert "\n" not in first.message
    assert found.outcome == "not convertible"
    assert found.exit_code == 2


@pytest.mark.slow
def test_an_input_without_influence_is_not_blamed_for_what_another_line_does(examined):
    old, unused, *_ = examined("ForOldGraphs").findings
    assert (unused.kind, unused.severity) == ("unused-input", "warning")
    assert (old.kind, "_C_ops" in old.advice) == ("graph-break", True)


@pytest.mark.slow
def test_groups_that_are_a_dynamic_size_are_told_as_that(examined):
    found = examined("GroupsOfRows").findings[0]
    assert "paddle.matmul" in found.advice


@pytest.mark.slow
def test_a_runtime_that_loses_a_dynamic_batch_is_told_apart_from_a_program_that_does(tmp_path):
    found = examine(tmp_path, "Suppresses", candidates=("paddle", "onnxruntime"))
    assert found.runtimes["paddle"].status == "proven", found
    (trouble,) = [finding for finding in found.findings if finding.severity == "warning"]
    assert (trouble.kind, trouble.where) == ("shape-specific", None)
    assert trouble.message.startswith("onnxruntime: batch is dynamic in the program, and this runtime works with 1 and not with 2")


@pytest.mark.slow
def test_an_output_of_nothing_but_nan_is_told_in_plain_words_before_anything_is_compared(examined):
    found = examined("SaysNothing")
    assert re.match(r"the eager model answers nothing but NaN and infinity in \S+, in all of \d+ batches", found.findings[0].message)
    assert "logarithms" in found.findings[0].advice
    assert found.runtimes["paddle"].status == "not tried"


@pytest.mark.slow
def test_a_model_that_leaves_some_scores_out_as_infinity_is_proven(tmp_path):
    found = examine(tmp_path, "LeavesOut", candidates=("paddle", "onnxruntime"))
    assert found.outcome == "convertible", found
    assert {row.status for row in found.runtimes.values()} == {"proven"}


@pytest.mark.slow
def test_a_model_that_calls_itself_training_is_tried_and_judged_by_its_answers(tmp_path):
    found = examine(tmp_path, "CallsItselfTraining", candidates=("paddle",))
    assert found.runtimes["paddle"].status == "proven", found
    assert [(finding.kind, finding.severity) for finding in found.findings] == [("train-mode", "warning")]
    assert found.exit_code == 1


@pytest.mark.slow
def test_numbers_and_strings_among_the_outputs_are_a_note_and_what_never_varies_is_not_called_unused(tmp_path):
    inputs = [*ONE, {"name": "y", "dtype": "float32", "shape": ["batch", 1], "low": 2, "high": 2}]
    found = examine(tmp_path, "Tells", inputs, candidates=("paddle",))
    assert found.outcome == "convertible", found
    notes = {finding.kind: finding.message for finding in found.findings if finding.kind != "batch-dependent"}
    assert "'unit' is always 'metres', 'n' is always 3" in notes["output-structure"]
    assert "unused-input" not in notes


def test_a_number_that_follows_the_inputs_is_an_error_before_anything_is_converted(tmp_path):
    found = examine(tmp_path, "Reports").findings[0]
    assert (found.kind, found.severity) == ("output-structure", "error")
    assert found.message.startswith("output 'output_1' is a Python value that depends on the inputs")


@pytest.mark.slow
def test_parts_of_arguments_are_inputs_by_their_path(tmp_path):
    inputs = [{"name": name, "dtype": "float32", "shape": ["batch", 8]} for name in ("batch.x", "states[0]", "states[1]")]
    model = Model(factory="their_clinic:Gathers", inputs=inputs, absent=["mask"])
    found = examining.examine(model, work=tmp_path / "work", candidates=("paddle", "onnxruntime"), seconds=600)
    assert {row.status for row in found.runtimes.values()} == {"proven"}, found


@pytest.mark.slow
def test_a_size_that_eager_does_not_survive_is_left_out_and_shown(tmp_path):
    found = examine(tmp_path, "DiesOfSizes", [{"name": "x", "dtype": "float32", "shape": ["batch", "length", 8]}], candidates=("paddle",))
    (end,) = [finding for finding in found.findings if finding.kind == "crash" and finding.severity == "warning"]
    assert "length 7" in end.message
    assert "x float32[2, 7, 8]" in end.message


@pytest.mark.slow
def test_lengths_that_eager_does_not_survive_are_drawn_within_the_rows(tmp_path):
    inputs = [
        {"name": "words", "dtype": "int64", "shape": ["batch", "length"], "low": 0, "high": 19},
        {"name": "lengths", "dtype": "int64", "shape": ["batch"], "low": 1, "high": 4000},
    ]
    found = examine(tmp_path, "Packs", inputs, candidates=("paddle",))
    assert found.runtimes["paddle"].status == "proven", found
    (assumed,) = [finding for finding in found.findings if finding.kind == "assumed-range"]
    assert assumed.message.startswith("input 'lengths' ")
    assert assumed.advice == "declare it: --input 'lengths:int64[batch]=1..length'"


PACKED = [
    {"name": "words", "dtype": "int64", "shape": ["batch", "length"], "low": 0, "high": 19},
    {"name": "lengths", "dtype": "int64", "shape": ["batch"], "low": 1, "high": 1},
]


@pytest.mark.slow
def test_a_model_that_loads_too_slowly_says_nothing_about_the_values_of_its_inputs(tmp_path):
    found = examine(tmp_path, "packs_late", PACKED, candidates=("paddle",), settings=Verify(timeout_s=15))
    assert [finding.kind for finding in found.findings] == ["hang"], found
    assert "did not answer in 15 s (load)" in found.findings[0].message


def test_a_model_that_does_not_load_within_its_share_of_the_time_is_not_judged(tmp_path):
    found = examine(tmp_path, "packs_slowly", PACKED, candidates=("paddle",), seconds=8)
    assert (found.outcome, found.exit_code) == ("not judged in time", 3), found
    assert found.runtimes["paddle"].status == "not judged in time"
    assert "did not answer in 2 s (load)" in found.findings[0].message


@pytest.mark.slow
def test_a_model_without_a_batch_is_examined(tmp_path):
    inputs = [
        {"name": "vertices", "dtype": "float32", "shape": ["vertices", 5]},
        {"name": "sources", "dtype": "int64", "shape": ["edges"], "low": 0, "high": "vertices-1"},
        {"name": "step", "dtype": "int64", "shape": [], "low": 0, "high": 9},
    ]
    found = examine(tmp_path, "OneGraph", inputs, candidates=("paddle",))
    assert found.outcome == "convertible", found


@pytest.mark.slow
def test_the_batch_is_where_it_is_called_so_and_a_first_dimension_may_be_fixed(tmp_path):
    inputs = [
        {"name": "x", "dtype": "float32", "shape": [6, "batch", 8]},
        {"name": "scale", "dtype": "float32", "shape": [6, 1, 1]},
    ]
    found = examine(tmp_path, "TimeFirst", inputs, candidates=("paddle",))
    assert found.outcome == "convertible", found


def test_what_is_known_when_the_time_is_over_is_the_examination(tmp_path):
    found = examine(tmp_path, "Healthy", seconds=0)
    (late,) = found.findings
    assert (late.kind, late.severity, found.exit_code) == ("out-of-time", "error", 3)
    assert {name: row.status for name, row in found.runtimes.items()} == dict.fromkeys(found.runtimes, "not judged in time")
    assert found.headline == "their_clinic:Healthy: not judged in time (1 error), 0 s"


@pytest.mark.slow
def test_runtimes_that_were_proven_before_the_time_was_over_are_the_verdict(tmp_path, monkeypatch):
    load = proving.Queue._load

    def late(self, name, model_under_test):
        if name == "onnxruntime":
            raise OutOfTime
        return load(self, name, model_under_test)

    monkeypatch.setattr(proving.Queue, "_load", late)
    found = examine(tmp_path, "Healthy", candidates=("paddle", "onnxruntime"))
    assert {name: row.status for name, row in found.runtimes.items()} == {"paddle": "proven", "onnxruntime": "not judged in time"}
    assert [finding.severity for finding in found.findings if finding.kind == "out-of-time"] == ["warning"]
    assert "converts to one static graph; proven in paddle; not judged in time: onnxruntime" in found.headline
    assert "not convertible" not in str(found)
    assert (found.outcome, found.exit_code) == ("convertible with warnings", 1)
    assert (found.to_dict()["headline"], found.to_dict()["exit_code"]) == (found.headline, 1)


@pytest.mark.parametrize(
    ("statuses", "kinds", "outcome", "code"),
    [
        (["proven", "proven"], [], "convertible", 0),
        (["proven", "failed"], [], "convertible with warnings", 1),
        (["failed", "not judged in time"], ["out-of-time"], "not judged in time", 3),
        (["not judged in time"], ["out-of-time", "wrong-answers"], "not convertible", 2),
        (["failed", "not made"], [], "not convertible", 2),
    ],
)
def test_only_an_error_that_was_found_makes_a_model_not_convertible(statuses, kinds, outcome, code):
    rows = {str(place): RuntimeRow(status) for place, status in enumerate(statuses)}
    found = Examination("their_clinic:Healthy", [Finding(kind, "error", "words") for kind in kinds], rows)
    assert (found.outcome, found.exit_code) == (outcome, code)
    assert ("not convertible" in str(found)) == (outcome == "not convertible")


@pytest.mark.slow
def test_a_verdict_outlives_the_search_for_causes(tmp_path, monkeypatch):
    def search(*_arguments, **_options):
        raise OutOfTime

    monkeypatch.setattr(examining.explaining, "explain", search)
    monkeypatch.setattr(examining.sizes, "frozen", lambda *_arguments, **_options: [])
    found = examine(tmp_path, "Suppresses", candidates=("paddle", "onnxruntime"))
    assert {name: row.status for name, row in found.runtimes.items()} == {"paddle": "proven", "onnxruntime": "failed"}
    *_, late, failed = found.findings
    assert (late.kind, late.severity) == ("out-of-time", "note")
    assert failed.message.startswith("onnxruntime is not proven: ")
    assert found.exit_code == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ReadsClock", "ReadsVariable", "CountsCalls"])
def test_what_answers_depend_on_besides_the_inputs_is_named_with_its_line(tmp_path, name):
    found = examine(tmp_path, name, candidates=("paddle",))
    (hidden,) = [finding for finding in found.findings if finding.severity == "error"]
    assert hidden.kind == "hidden-influence", found
    body = MODELS.partition(f"class {name}(")[2].partition("# reads it")[0]
    line = MODELS.partition(f"class {name}(")[0].count("\n") + body.count("\n") + 1
    assert hidden.where.endswith(f"their_clinic.py:{line}")
    assert found.runtimes["paddle"].status in ("failed", "not tried")
    assert found.exit_code == 2


def test_an_influence_takes_the_place_of_what_no_line_explains_and_of_nothing_else():
    unknown, placed = Finding("global-state", "error", "w"), Finding("global-state", "error", "w", where="net.py:7")
    warned, hidden = Finding("hidden-influence", "warning", "not looked for"), Finding("hidden-influence", "error", "the clock")
    assert messages.unexplained([unknown])
    assert not messages.unexplained([placed])
    assert messages.influenced([unknown, placed], [hidden]) == [placed, hidden]
    assert messages.influenced([unknown], [warned]) == [unknown, warned]
    rows = {"one": RuntimeRow("proven"), "two": RuntimeRow("not made", "words")}
    assert messages.distrusted(rows, [hidden]) == {"one": RuntimeRow("failed", "the clock"), "two": rows["two"]}
    assert messages.distrusted(rows, [warned]) == rows


@pytest.mark.slow
def test_a_healthy_model_has_no_finding_of_its_own(tmp_path):
    found = examine(tmp_path, "Healthy", candidates=("paddle",))
    assert found.full_graph
    assert found.runtimes["paddle"].status == "proven"
    assert {finding.kind for finding in found.findings} <= {"batch-dependent"}, str(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factory", "kwargs", "shape"),
    [
        pytest.param("paddle.vision.models:mobilenet_v3_small", {"num_classes": 10}, [3, 64, 64], marks=pytest.mark.long),
        ("paddle.nn:LSTM", {"input_size": 8, "hidden_size": 4}, ["length", 8]),
    ],
)
def test_paddles_own_models_are_clean(tmp_path, factory, kwargs, shape):
    model = Model(factory=factory, kwargs=kwargs, inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", *shape]}])
    found = examining.examine(model, work=tmp_path / "work", candidates=("paddle",))
    assert (found.outcome, found.findings) == ("convertible", [])


@pytest.mark.parametrize(
    ("factory", "kind", "words"),
    [
        ("nowhere:build", "bad-model", "no module named 'nowhere'"),
        ("their_clinic:not_a_layer", "bad-model", "returned int, not a paddle.nn.Layer"),
        ("their_clinic:mute", "output-structure", "forward returned no tensor"),
        ("their_clinic:ends", "crash", "the eager model exited with 3"),
    ],
)
def test_a_factory_that_gives_no_model_is_one_finding(tmp_path, factory, kind, words):
    found = examining.examine(Model(factory=factory, inputs=ONE), work=tmp_path / "work")
    assert [finding.kind for finding in found.findings] == [kind]
    assert "optimize.candidates" not in found.findings[0].advice
    assert words in found.findings[0].message
    assert found.exit_code == 2


def test_a_size_that_is_unknown_while_converting_is_told_with_its_line_once():
    said = "ValueError: [Hint: Expected C == filter_dims[0], but received C:-1 != filter_dims[0]:16.] (at binary.cc:835) at net.py:7"
    found = graph_breaks.classify(said, said, "net.py:7")
    assert (found.kind, found.where) == ("graph-break", "net.py:7")
    assert "-1 for the batch" in found.advice
    other = graph_breaks.classify("OSError: no such thing at net.py:7", "", "net.py:7")
    assert str(other).count("net.py:7") == 1


def test_where_only_sot_leaves_the_graph_is_a_note(tmp_path):
    from paddle.jit.sot.utils import exceptions

    (tmp_path / "net.py").write_text(
        "def forward(x):\n    y = float(x)\n    j = y + 1\n    for i in range(x):\n        y = [i for i in range(x)]\n"
    )
    hidden, value = exceptions.DataDependencyControlFlowBreak(), exceptions.DataDependencyOperationBreak("called get_py_value")
    found = [graph_breaks._break(*one) for one in ((hidden, f"{tmp_path}/net.py:2"), (value, f"{tmp_path}/net.py:2"))]
    assert [one.severity for one in found] == ["note", "warning"]
    rest = [graph_breaks._break(value, f"{tmp_path}/net.py:{line}") for line in (3, 4, 5)]
    assert [(one.severity, one.kind) for one in rest] == [("note", "graph-break")] * 2 + [("warning", "python-value")]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            "TypeError: (InvalidType) full(): argument (position 2) must be double, but got str (at op.cc:428) at net.py:7",
            "is passed as a string",
        ),
        ("NotImplementedError: (Unimplemented) Only support paddle::dialect::DenseTensorType or … at net.py:7", "becomes a tensor array"),
    ],
)
def test_what_paddle_says_of_its_own_insides_is_told_in_the_users_words(said, words):
    found = graph_breaks.classify(said, said, "net.py:7")
    assert (found.kind, found.where) == ("graph-break", "net.py:7")
    assert words in found.message


def test_state_that_is_an_error_after_all_says_what_it_does():
    (found,) = messages.judged([Finding("stale-tensor", "note", "forward keeps a tensor on self")], {})
    assert (found.severity, found.message) == ("error", "forward keeps a tensor on self: the program keeps what it was made with")


def test_state_is_no_reason_why_no_runtime_could_be_made():
    kept = [Finding("stale-tensor", "note", "forward keeps a tensor on self")]
    assert messages.judged(kept, dict.fromkeys(("paddle", "onnxruntime"), RuntimeRow("not made", "ValueError"))) == kept


def test_what_forward_changes_is_not_taken_for_a_changed_weight():
    wrong = [Finding("weights-differ", "error", "w"), Finding("wrong-layer", "error", "l")]
    assert [item.kind for item in messages.causes(wrong, seen=[Finding("stale-tensor", "note", "t")])] == ["wrong-layer"]
    assert messages.causes(wrong) == wrong


def test_that_a_program_departs_is_left_unsaid_only_where_another_error_says_why():
    departs, frozen = Finding("program-departs", "error", "words"), Finding("frozen-branch", "error", "words")
    assert messages.causes([frozen, departs]) == [frozen]
    for other in (Finding("wrong-answers", "error", "words"), Finding("uncovered-branch", "warning", "words")):
        assert messages.causes([other, departs]) == [other, departs]
