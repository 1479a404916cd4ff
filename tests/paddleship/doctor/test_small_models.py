"""The doctor is right about small models that were once diagnosed wrongly."""

import re
import sys

import numpy as np
import pytest

from paddleship.config.sections.model import Model
from paddleship.config.sections.verify import Verify
from paddleship.conversion import exporting, to_onnx
from paddleship.conversion.converting import ConversionResult
from paddleship.doctor import examining, graph_breaks, memory, messages, operator_lines, table_bounds
from paddleship.doctor.ast_lint import Suspect
from paddleship.doctor.eager_probe import ProbeResult
from paddleship.doctor.examination import Examination, RuntimeRow, by_gravity
from paddleship.errors import ProcessDied
from paddleship.model.eager import SourceModel
from paddleship.proof.cases import inputs
from paddleship.proof.cases.inputs import Case
from paddleship.proof.parity import Judgement
from paddleship.proof.proving import Proof
from paddleship.reports.finding import Finding
from paddleship.reports.verdict import Check
from paddleship.shipped.computing.spec import Dimension, TensorSpec, batch_dimension

MODELS = """
import os
import time
import paddle
from paddle import nn

class Head(nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 20)
        self.embed = nn.Embedding(20, 4)

class Pair(Head):
    def forward(self, a, b):
        return paddle.matmul(self.fc(a)[:, :8], b, transpose_y=True)

class Squeezed(Head):
    def forward(self, x):
        return self.fc(x)[:, :1].squeeze()

class Number(Head):
    def forward(self, x):
        return x.shape[0] * 2

class Scaled(Head):
    def forward(self, x, k):
        return self.fc(x) * k

class Expanded(Head):
    def forward(self, x, steps):
        return self.fc(paddle.expand(x.unsqueeze(1), [x.shape[0], steps, 8]))

class Sized(Head):
    def forward(self, x, grid):
        y = self.fc(x).unsqueeze(1).expand([-1, grid.shape[1], -1])
        return y + paddle.arange(grid.shape[1], dtype="float32").unsqueeze(-1)

class SizedBeside(Head):
    def forward(self, x, steps, idle):
        parts = []
        for _ in range(steps.shape[1]):
            x = self.fc(x)[:, :8]
            parts.append(x.unsqueeze(1))
        return paddle.concat(parts, axis=1)

class Ragged(Head):
    def forward(self, x):
        parts, count = [], paddle.zeros([], dtype="int64")
        while count < 4:
            parts.append(self.fc(x)[:, : count + 1])  # <- append
            count = count + 1
        return paddle.concat(parts, axis=1)

class Overridden(Head):
    def state_dict(self, *given, **named):
        return None

    def forward(self, x):
        return self.fc(x)

class Counted(Overridden):
    def state_dict(self, *given, **named):
        return {"steps": 3}

class Uninitialised(Head):
    def __init__(self):
        super().__init__()
        self.scale = self.create_parameter([20], default_initializer=nn.initializer.Constant(float("nan")))

    def forward(self, x):
        return self.fc(x) * self.scale

class Causal(Head):
    def __init__(self):
        super().__init__()
        self.register_buffer("causal", paddle.triu(paddle.full([20, 20], float("-inf")), 1))

    def forward(self, x):
        return paddle.nn.functional.softmax(self.fc(x).unsqueeze(1) + self.causal, -1)

class OwnEval(Head):
    def eval(self):
        super().eval()
        for part in None:  # <- own eval
            part.eval()

    def forward(self, x):
        return self.fc(x)

class Picky(Head):
    def __init__(self, classes=3):
        super().__init__()
        assert classes == 4, "four classes"

    def forward(self, x):
        assert x.shape[1] == 9, "nine features"
        return self.fc(x)

class Constant(Head):
    def forward(self, x, k):
        return self.fc(x) * 0 + k * 0 + 1

class Endless(Head):
    def forward(self, x):
        while not paddle.in_dynamic_mode():
            time.sleep(1)
        return self.fc(x)

class Steps(Head):
    def forward(self, x):
        parts = []
        for _ in range(paddle.to_tensor(3)):
            x = self.fc(x)[:, :8]
            parts.append(x)  # <- step
        return paddle.stack(parts, 1)

class Joined(Head):
    def forward(self, x):
        rounds, y = paddle.to_tensor(3), x
        for _ in range(rounds + 1):  # <- rounds
            y = self.fc(y)[:, :8]
        beside = x * 2
        beside = beside.transpose([1, 0])
        beside = beside.abs()
        beside = beside.transpose([1, 0])
        return paddle.concat([y, beside], 1)

class Inverse(Head):
    def forward(self, x):
        y = paddle.einsum("ij,jk->ik", x, self.fc.weight)
        return 1.0 / (1.5 + paddle.tanh(y))  # <- inverse

class Tied(Head):
    def forward(self, x):
        scores = paddle.clip(self.fc(x) * 20, 0.0, 1.0)
        value, index = paddle.topk(scores, 3, axis=1)  # <- topk
        return self.embed(index).sum(1), value

class Sampled(Head):
    def __init__(self):
        super().__init__()
        self.biased = True
        self.normal = paddle.distribution.Normal(0.0, 1.0)

    def forward(self, x):
        noise = self.normal.sample([8])  # <- sample
        if self.biased:
            bias = self.fc.bias
        else:
            bias = None
        return paddle.nn.functional.linear(x + noise, self.fc.weight, bias)

class Dies(Head):
    def forward(self, x):
        if not paddle.in_dynamic_mode():
            for _ in range(2):
                os.abort()  # <- abort
        return self.fc(x)

class DiesInEager(Head):
    def forward(self, x):
        if x.shape[0] == 7:
            os.abort()  # <- eager abort
        return self.fc(x)

class Checked(Head):
    def forward(self, x):
        if x.is_sparse():  # <- check
            x = x.to_dense()
        return self.fc(x)

class Zipped(Head):
    def forward(self, x):
        return paddle.stack([a * b for a, b in zip(x, self.fc(x)[:, :8])])  # <- zip

class Looked(Head):
    def forward(self, ids):
        return self.fc(self.embed(ids).reshape([-1, 8]))  # <- lookup

class LookedBelow(Head):
    def forward(self, ids):
        return self.fc(self.embed(ids - 1).reshape([-1, 8]))  # <- lookup below

class Gathered(Head):
    def forward(self, ids):
        return paddle.gather(self.fc.bias, ids.flatten(), 0)  # <- gather

class Indexed(Head):
    def forward(self, ids):
        return self.embed.weight.unsqueeze(0)[:, ids.flatten()]  # <- index
"""
IDS = np.array([0, 1])
X = {"name": "x", "dtype": "float32", "shape": ["batch", 8]}


def marked(mark):
    return str(next(number for number, line in enumerate(MODELS.splitlines(), start=1) if line.endswith(f"# <- {mark}")))


@pytest.fixture
def examine(tmp_path, monkeypatch):
    (tmp_path / "their_small.py").write_text(MODELS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "their_small", raising=False)

    def run(name, *declared, candidates=("paddle",), settings=None, **options):
        model = Model(factory=f"their_small:{name}", inputs=list(declared), **options)
        return examining.examine(model, work=tmp_path / "work", candidates=candidates, settings=settings)

    return run


def test_two_inputs_of_different_sizes_and_no_batch_are_examined(examine):
    shapes = ({"name": "a", "dtype": "float32", "shape": ["n", 8]}, {"name": "b", "dtype": "float32", "shape": ["m", 8]})
    found = examine("Pair", *shapes, dimensions={"n": {"low": 10, "high": 40}})
    assert found.runtimes["paddle"].status == "proven", str(found)


def test_a_squeezed_batch_is_reported_with_the_pair_of_shapes_that_differ(examine):
    (error,) = [finding for finding in examine("Squeezed", X).findings if finding.severity == "error"]
    first, second = re.findall(r"(\[[\d, ]*\]) for x", error.message)
    assert first.count(",") != second.count(",") or "[]" in (first, second)
    assert "name the axis" in error.advice


def test_a_number_in_place_of_a_tensor_is_called_a_number(examine):
    (error,) = examine("Number", X).findings
    assert "Python values and no tensor" in error.message


def test_a_single_number_is_proven_in_onnx_runtime(examine):
    found = examine("Scaled", X, {"name": "k", "dtype": "float32", "shape": [], "low": 0, "high": 3}, candidates=("onnxruntime",))
    assert found.runtimes["onnxruntime"].status == "proven", str(found)


def test_a_number_among_sizes_has_no_dimension_in_paddle_inference_either(examine):
    found = examine("Expanded", X, {"name": "steps", "dtype": "int64", "shape": [], "low": 1, "high": 20})
    assert found.runtimes["paddle"].status == "proven", str(found)


def test_every_case_holds_arrays_for_a_single_number():
    cases = inputs.generate([TensorSpec("k", "float32", (), 0.0, 3.0)], seed=0, max_batch=2)
    assert {type(array) for case in cases for array in case.inputs.values()} == {np.ndarray}


def test_an_input_that_serves_by_its_size_is_not_called_useless(examine):
    found = examine("Sized", X, {"name": "grid", "dtype": "float32", "shape": ["batch", "places"]})
    (note,) = [finding for finding in found.findings if finding.kind == "unused-input"]
    assert (note.severity, "only the size of input 'grid'" in note.message) == ("note", True)


@pytest.mark.slow
def test_the_line_of_a_choice_among_equals_is_that_of_topk(examine):
    found = examine("Tied", X, candidates=("paddle", "onnxruntime"))
    marked = next(number for number, line in enumerate(MODELS.splitlines(), start=1) if "<- topk" in line)
    (wrong,) = [finding for finding in found.findings if finding.kind == "wrong-layer"]
    assert wrong.where.endswith(f":{marked}"), str(found)


def test_the_cause_of_an_error_is_not_an_if_on_its_line_that_paddle_does_not_speak_of(tmp_path):
    path = tmp_path / "net.py"
    path.write_text("def forward(x):\n    y = x if x.shape[1] > 3 else helper(x)\n    return y\n")
    said = f"PermissionError: no access to the table at {path}:2"
    assert graph_breaks.classify(said, said, f"{path}:2").kind == "graph-break"
    unknown = f"TypeError: '>' not supported between NoneType and int at {path}:2"
    assert graph_breaks.classify(unknown, unknown, f"{path}:2").kind == "dynamic-shape-branch"


def test_a_variable_without_a_value_on_one_side_is_named_as_that():
    said = "TypeError: (InvalidType) full(): argument must be double, but got UndefinedVar at net.py:7"
    assert "on one side of an `if` only" in graph_breaks.classify(said, said, "net.py:7").message


def test_a_variable_without_a_value_is_placed_at_the_if_that_leaves_it_so(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(
        "def forward(x):\n    scale = None\n    if x.shape[1] > 1:\n        scale = 2.0\n"
        "    if scale is None:\n        scale = 1.0\n    return full([1], scale)\n"
    )
    said = f"TypeError: (InvalidType) full(): argument must be double, but got UndefinedVar at {path}:7"
    found = graph_breaks.classify(said, said, f"{path}:7")
    assert (found.kind, found.where) == ("branch-mismatch", f"{path}:3")
    assert "`if x.shape[1] > 1`" in found.message
    assert "line 7" in found.message


def test_a_size_that_is_needed_as_a_number_is_called_a_size(tmp_path):
    path = tmp_path / "net.py"
    path.write_text("def forward(x, y):\n    B, E = x.shape\n    return x / sqrt(E)\n\ndef other(x):\n    return float(x)\n")
    said = "TypeError: float(Tensor) is not supported in static graph mode."
    found = graph_breaks.classify(said, said, f"{path}:3")
    assert (found.kind, "'E' is a size" in found.message, "reshape" in found.advice) == ("python-value", True, True)
    assert "paddle.maximum" in graph_breaks.classify(said, said, f"{path}:6").advice


def test_a_conversion_that_does_not_end_is_not_judged_and_the_advice_helps(examine):
    found = examine("Endless", X, settings=Verify(timeout_s=20))
    (late,) = [finding for finding in found.findings if finding.severity == "error"]
    assert (found.outcome, late.kind, found.runtimes["paddle"].status) == ("not judged in time", "out-of-time", "not judged in time")
    assert "raise --seconds" in late.advice


def test_more_time_for_an_examination_is_more_time_for_each_of_its_calls():
    assert [examining._limits(seconds).timeout_s for seconds in (60, 120, 400)] == [120, 120, 200]


def test_a_list_that_a_loop_fills_is_named_where_the_converter_to_onnx_drops_it(examine):
    found = examine("Steps", X, candidates=("paddle", "onnxruntime"))
    assert found.runtimes["paddle"].status == "proven", str(found)
    (warning,) = [finding for finding in found.findings if finding.severity == "warning"]
    marked = next(number for number, line in enumerate(MODELS.splitlines(), start=1) if "<- step" in line)
    assert (warning.kind, warning.where.rpartition(":")[2]) == ("unsupported-operator", str(marked)), str(found)
    assert "onnxruntime cannot be made: a list is filled in a loop over a tensor" in warning.message


def test_the_line_that_a_converter_fails_on_is_not_a_later_one_that_joins_its_result_with_others(examine):
    found = examine("Joined", X, candidates=("paddle", "onnxruntime"))
    (warning,) = [finding for finding in found.findings if finding.severity == "warning"]
    marked = next(number for number, line in enumerate(MODELS.splitlines(), start=1) if "<- rounds" in line)
    assert "onnxruntime cannot be made" in warning.message, str(found)
    assert warning.where.rpartition(":")[2] == str(marked), str(found)


def test_an_operator_without_a_converter_is_placed_at_the_line_that_the_program_names(examine):
    found = examine("Inverse", X, candidates=("paddle", "onnxruntime"))
    marked = next(number for number, line in enumerate(MODELS.splitlines(), start=1) if "<- inverse" in line)
    (warning,) = [finding for finding in found.findings if finding.kind == "unsupported-operator"]
    assert "full_batch_size_like" in warning.message, str(found)
    assert warning.where.rpartition(":")[2] == str(marked), str(found)


def test_an_operator_that_the_program_does_not_name_has_no_line(tmp_path, examine):
    examine("Inverse", X)
    source_model = SourceModel(Model(factory="their_small:Inverse", inputs=[X]), tmp_path / "work/checkpoint", 0)
    specs = [item.spec() for item in source_model.model.inputs]
    assert operator_lines.find(source_model, specs, ["roi_align"]) is None


def test_a_list_of_different_shapes_is_the_only_error_and_has_its_line(examine):
    found = examine("Ragged", X, candidates=("paddle", "onnxruntime"))
    marked = next(number for number, line in enumerate(MODELS.splitlines(), start=1) if "<- append" in line)
    (error,) = [finding for finding in found.findings if finding.severity == "error"]
    assert "different shapes" in error.message, str(found)
    assert error.where.endswith(f":{marked}"), str(found)
    assert "parts.append(" in error.message


def test_a_suspicious_line_is_not_taken_for_the_cause_of_an_error_that_says_nothing_of_it():
    suspect = Suspect("dynamic-shape-branch", "net.py", 3, "", "x.shape[1] > 3")
    other = graph_breaks.classify("PermissionError: no access", "PermissionError: no access", None)
    assert messages.located(other, [suspect]).where is None
    agreeing = graph_breaks.classify("ValueError: bad shape [-1, 3]", "ValueError: bad shape [-1, 3]", None)
    assert messages.located(agreeing, [suspect]).where == "net.py:3"


@pytest.mark.parametrize(
    "said", ["ValueError: PreState has -1 and 1 rows", "ValueError: float(Tensor) is not supported in static graph mode"]
)
def test_what_only_to_static_in_memory_raises_is_reported_as_that(said):
    failed = Judgement({}, [Check(name="answers", measured=said, limit="an answer to every case", passed=False)])
    proven = Judgement({}, [Check(name="answers", measured=1, limit=1, passed=True)])
    proof = Proof(None, {"to_static": failed, "paddle": proven}, {"to_static": None, "paddle": []})
    found = messages.raised(proof, [])
    assert found is not None
    assert (said in found.message) or found.kind == "python-value"
    wrong = Proof(None, {"to_static": failed, "paddle": failed}, {"to_static": None, "paddle": None})
    alone = Proof(None, {"to_static": failed}, {"to_static": None})
    for proof in (wrong, alone):
        assert (messages.raised(proof, []) is None) == ("PreState" in said)


@pytest.mark.parametrize(
    ("text", "count"), [("math.sqrt(self.width)", 0), ("float(self.scale, 2)", 0), ("float(x.mean())", 1), ("np.clip(y, self.low, 3)", 1)]
)
def test_a_number_of_the_model_itself_is_no_frozen_value(text, count):
    assert len(messages.frozen([Suspect("python-value", "net.py", 3, "", text)])) == count


def test_an_operator_with_a_short_name_and_no_converter_is_named():
    names = ("i1", "logit", "erfinv", "add", "matmul", "full", "clip", "sigmoid", "mean", "max", "divide", "arange", "topk", "argmax")
    program = {"regions": [{"blocks": [{"ops": [{"#": f"1.{name}"} for name in names]}]}]}
    assert to_onnx.unknown(program) == ["erfinv", "i1", "logit"]


def test_an_operator_whose_name_begins_as_that_of_another_is_named():
    names = (
        "sequence_mask",
        "bitwise_left_shift",
        "multiply",
        "subtract",
        "floor_divide",
        "remainder",
        "bilinear_interp",
        "full_int_array",
    )
    program = {"regions": [{"blocks": [{"ops": [{"#": f"1.{name}"} for name in names]}]}]}
    assert to_onnx.unknown(program) == ["bitwise_left_shift", "sequence_mask"]


def test_agreement_about_constants_alone_is_not_convertible_with_warnings():
    warned = [Finding("not-exercised", "warning", "constant")]
    found = Examination("m:f", warned, {"paddle": RuntimeRow("not exercised")}, full_graph=True)
    assert (found.outcome, found.exit_code) == ("not exercised", 3)


def test_layers_in_train_mode_are_counted_in_a_whole_sentence():
    import paddle

    layer = paddle.nn.Sequential(paddle.nn.Linear(2, 2), paddle.nn.Linear(2, 2))
    (found,) = memory.train_mode(layer, [], {})
    assert "in train mode after eval() and a call, as are 2 more" in found.message


@pytest.mark.parametrize(
    ("kind", "advice", "option"),
    [
        ("not-exercised", "ask rows (verify.samples)", "--checkpoint"),
        ("uncovered-branch", "add held-out rows that do", "--input"),
        ("weights-differ", "convert again: `paddleship run --again export`", "state_dict()"),
    ],
)
def test_advice_of_the_proof_is_replaced_by_what_needs_no_pipeline(kind, advice, option):
    (found,) = messages.advised([Finding(kind, "error", "w", advice)])
    assert option in found.advice
    assert advice not in found.advice


def test_no_input_of_a_model_with_constant_answers_is_called_unused(examine):
    found = examine("Constant", X, {"name": "k", "dtype": "float32", "shape": []})
    assert "not-exercised" in {finding.kind for finding in found.findings}, str(found)
    assert "unused-input" not in {finding.kind for finding in found.findings}, str(found)


def test_of_two_inputs_without_influence_none_is_said_to_be_the_one_that_paddle_refuses(examine):
    """Paddle refuses `idle` and takes `steps`, whose size matters, and its message names neither."""
    steps = {"name": "steps", "dtype": "int64", "shape": ["batch", "length"]}
    idle = {"name": "idle", "dtype": "int64", "shape": ["batch"]}
    found = examine("SizedBeside", X, steps, idle, dimensions={"length": {"low": 2, "high": 5}})
    errors = [finding for finding in found.findings if finding.kind == "unused-input" and finding.severity == "error"]
    assert len(errors) == 2, str(found)
    assert "'idle'" in errors[0].message, "forward mentions steps and not idle"
    assert all("does not name the input, and an input whose size is used can stay" in error.message for error in errors)
    assert all(error.advice.endswith("keep it if its size matters") for error in errors)


@pytest.mark.parametrize(("status", "said"), [("not tried", False), ("proven", True)])
def test_only_runtimes_that_were_tried_are_said_to_be_compared(status, said):
    found = messages.unfinished("looking for causes", 9, {"paddle": RuntimeRow(status)}, judged=True)
    assert ("all runtimes were compared before" in found.message) == said


def test_a_program_that_does_not_load_is_no_branch_whose_sides_differ():
    text = "The size 0 of regions must be equal to 2.\n[Hint: (*this)->num_regions():0 != 2u:2.] (at control_flow_op.cc:238)"
    assert graph_breaks.classify("RuntimeError: …", text, None).kind == "crash"
    assert graph_breaks.classify("RuntimeError: …", "differ in rank (at control_flow_op.cc:90)", None).kind == "branch-mismatch"


def test_each_input_without_influence_and_without_range_is_named():
    kinds, names = ("unused-input", "assumed-range"), ("a", "b")
    findings = [messages.unused(name, "net.py:3", grave=False, alone=False) for name in names]
    findings += messages.assumptions(Model(factory="m:f", inputs=[{"name": name, "dtype": "int64", "shape": [2]} for name in names]))
    named = [(one.kind, re.search(r"input '(\w)'", one.message)[1]) for one in by_gravity(findings)]
    assert named == [(kind, name) for kind in kinds for name in names]


def test_fresh_weights_that_are_not_finite_are_not_to_be_trained_again(examine):
    (error,) = [finding for finding in examine("Uninitialised", X).findings if finding.severity == "error"]
    assert (error.kind, "initialise" in error.advice, "train" in error.advice) == ("nan-weights", True, False)


def test_a_mask_of_infinity_in_a_buffer_is_no_bad_weight(examine):
    found = examine("Causal", X)
    assert found.runtimes["paddle"].status == "proven", str(found)


def test_an_error_of_the_model_while_it_loads_is_no_failed_conversion(examine):
    (error,) = examine("OwnEval", X).findings
    marked = next(number for number, line in enumerate(MODELS.splitlines(), start=1) if "<- own eval" in line)
    assert (error.kind, error.where.rpartition(":")[2]) == ("bad-model", str(marked))
    assert "TypeError" in error.message
    assert "eval()" in error.advice


@pytest.mark.parametrize(("kwargs", "words"), [({"classes": 3}, "four classes"), ({"classes": 4}, "nine features")])
def test_an_error_of_the_model_names_no_params_that_only_a_pipeline_has(examine, kwargs, words):
    (error,) = examine("Picky", X, kwargs=kwargs).findings
    assert words in error.message
    assert not re.search(r"\b(model|code|verify|train)\.[a-z]+", f"{error.message} {error.advice}"), str(error)


def test_a_rank_that_changes_is_an_error_with_its_own_class():
    specs, probes = [TensorSpec("x", "float32", ("batch", 2))], [{"x": np.zeros((size, 2))} for size in (1, 1, 3)]
    answers = [{"y": np.zeros(shape, np.float32)} for shape in ((), (), (3,))]
    with pytest.raises(exporting.RankError, match=r"shape \[\] for x\[1, 2\], and \[3\] for x\[3, 2\]"):
        exporting.describe_outputs(specs, probes, answers)


def test_every_case_without_a_batch_has_a_name_of_its_own():
    specs, rule = [TensorSpec("a", "float32", ("n", 4)), TensorSpec("b", "float32", ("m", 4))], Dimension("n", 10, 40)
    names = [case.name for case in inputs.generate(specs, seed=0, max_batch=8, dimensions=[rule])]
    assert len(names) == len(set(names))


def test_a_dimension_that_an_input_has_twice_is_no_batch():
    specs = [TensorSpec("x", "float32", ("nodes", 4)), TensorSpec("adj", "float32", ("nodes", "nodes"))]
    shapes = [[array.shape for array in case.inputs.values()] for case in inputs.generate(specs, seed=0, max_batch=8)]
    assert shapes
    assert all(x[0] == rows == columns for x, (rows, columns) in shapes), shapes
    assert batch_dimension(specs[:1]) == "nodes"


@pytest.mark.parametrize("name", ["Overridden", "Counted"])
def test_a_model_that_overrides_a_method_of_a_layer_wrongly_is_no_defect_of_paddleship(examine, name):
    (finding,) = examine(name, X).findings
    assert finding.kind == "bad-model"
    assert f"{name}.state_dict() does not list what paddle.nn.Layer.state_dict() lists" in finding.message
    assert "super().state_dict()" in finding.message


def test_each_runtime_that_failed_is_named_in_a_finding():
    rows = {"paddle": RuntimeRow("failed", "noise_ratio is 90"), "onnxruntime": RuntimeRow("not made", "no memory")}
    rows |= {"openvino": RuntimeRow("failed", "noise_ratio is 70"), "paddle-onednn": RuntimeRow("not tried")}
    own = Finding("wrong-layer", "error", "openvino: fc is wrong", where="net.py:3")
    lost = Finding("wrong-layer", "error", "paddle: fc is wrong", where="net.py:3")
    notes = messages.unexplained_runtimes(rows, {"openvino": [own], "paddle": [lost]}, by_gravity([own, lost]))
    assert [note.message for note in notes] == ["paddle is not proven: noise_ratio is 90", "onnxruntime cannot be made: no memory"]


@pytest.mark.parametrize(("name", "mark", "kinds"), [("Sampled", "sample", {"crash", "random-forward"}), ("Dies", "abort", {"crash"})])
def test_a_crash_of_the_conversion_has_the_line_that_ran_then_and_no_branch_on_a_python_value(examine, name, mark, kinds):
    found = examine(name, X)
    errors = [finding for finding in found.findings if finding.severity == "error"]
    assert {error.kind for error in errors} == kinds, str(found)
    assert {error.where.rpartition(":")[2] for error in errors} == {marked(mark)}, str(found)


@pytest.mark.parametrize(
    ("name", "mark", "message", "advice"),
    [
        ("Checked", "check", "tensors have no 'is_sparse' during conversion (if x.is_sparse():", "if it is a check, remove it"),
        ("Zipped", "zip", "zip() takes a tensor whose first size is unknown", "for i in range(tensor.shape[0])"),
    ],
)
def test_a_call_that_tensors_lack_during_conversion_is_named_with_what_to_write(examine, name, mark, message, advice):
    (error,) = [finding for finding in examine(name, X).findings if finding.severity == "error"]
    assert (error.kind, error.where.rpartition(":")[2]) == ("graph-break", marked(mark)), str(error)
    assert message in error.message
    assert advice in error.advice


def test_advice_for_a_runtime_that_cannot_be_made_names_no_operator_and_no_line_that_is_not_known(tmp_path):
    (tmp_path / "net.py").write_text("def forward(self, x):\n    return self.fc(x)\n")
    outcome = ConversionResult("paddle", "paddle", "float32", reason="RuntimeError: std::exception", kind="conversion-failed")
    failed = messages.not_made(outcome, [])
    assert failed.advice.startswith("ship another runtime")
    assert messages.not_made(outcome, [], alternative=False).advice == "report this message to the runtime"
    assert "change what this line calls" in messages.placed(failed, f"{tmp_path}/net.py:2").advice
    whole = messages.placed(failed, f"{tmp_path}/net.py:1")
    assert "line" not in whole.advice
    assert whole.message.endswith("was not found")
    assert "this line" not in graph_breaks.classify("RuntimeError: no", "RuntimeError: no", None).advice


def test_a_crash_without_a_line_is_not_blamed_on_a_branch():
    suspect = Suspect("branch-mismatch", "net.py", 3, "", "if self.biased:")
    crash = messages.crash(ProcessDied("the conversion died of SIGSEGV (load)", signal="SIGSEGV"))
    assert messages.located(crash, [suspect]).where is None


def test_a_crash_of_eager_has_its_line(examine):
    found = examine("DiesInEager", X)
    (end,) = [finding for finding in found.findings if finding.kind == "crash" and finding.severity == "warning"]
    assert end.where.rpartition(":")[2] == marked("eager abort")


@pytest.mark.parametrize(
    ("name", "mark", "table", "id_", "advice"),
    [
        ("Looked", "lookup", "20 rows of Embedding 'embed'", 20, "--input 'ids:int64[batch,2]=0..19'"),
        ("LookedBelow", "lookup below", "20 rows of Embedding 'embed'", -1, "0..19"),
        ("Gathered", "gather", "20 rows of 'fc.bias'", 20, "--input 'ids:int64[batch,2]=0..19'"),
        ("Indexed", "index", "20 rows of a tensor", 20, "--input 'ids:int64[batch,2]=0..19'"),
    ],
)
def test_an_id_outside_of_its_table_is_the_only_error(examine, name, mark, table, id_, advice):
    found = examine(name, {"name": "ids", "dtype": "int64", "shape": ["batch", 2], "low": 0, "high": 20})
    (error,) = [finding for finding in found.findings if finding.severity == "error"]
    assert error.where.rpartition(":")[2] == marked(mark), str(found)
    assert f"id {id_} is outside of the table of {table}" in error.message
    assert advice in error.advice


def test_ids_within_their_table_are_proven_also_where_they_count_from_its_end(examine):
    ids = {"name": "ids", "dtype": "int64", "shape": ["batch", 2], "low": -20, "high": 19}
    found = examine("Indexed", ids)
    assert not [finding for finding in found.findings if "outside" in finding.message], str(found)


@pytest.mark.parametrize(
    ("index", "axes"),
    [
        (IDS, [0]),
        ((slice(None), IDS), [1]),
        ((..., IDS), [2]),
        ((None, IDS, 0, IDS), [0, 2]),
        ((np.ones((2, 2), bool), IDS), [2]),
        ((0, [1, 2]), []),
    ],
)
def test_the_axis_of_an_index_counts_what_stands_before_it(index, axes):
    assert [axis for axis, _ in table_bounds._indices(index, 3)] == axes


def test_names_of_cases_that_hold_commas_are_quoted():
    case = [Case(name, "rows", {"x": np.zeros((1, 8), "float32")}) for name in ("a row alone, length 7", "batch of 2, length 9")]
    probed = ProbeResult([], refused={one.name: "no" for one in case})
    (note,) = messages.refusals(probed, case, Model(factory="m:f", inputs=[X]))
    assert "rejects 'a row alone, length 7', 'batch of 2, length 9';" in note.message


def test_a_crash_of_eager_is_kept_beside_one_of_the_conversion_on_the_same_line():
    crashes = [Finding("crash", severity, message, where="net.py:3") for severity, message in (("error", "a"), ("warning", "b"))]
    assert by_gravity(crashes) == crashes
