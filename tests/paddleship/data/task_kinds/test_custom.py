"""A task of the user's own, from outside the repository: ordinal regression with a decision, a metric and a loss in their module."""

import json
import sys

import numpy as np
import pytest

from paddleship.config import loading
from paddleship.config.sections.verify import Verify
from paddleship.data.task_kinds import registry
from paddleship.errors import BadInput, DataError, ModelError, ParamsError
from paddleship.proof import evidence, finiteness, parity
from paddleship.proof.cases.inputs import Case
from paddleship.shipped.computing.task_kinds import registry as decisions
from tasks.prepare import prepare
from tasks.train import train

MODULE = """
import numpy as np
from paddle import nn

LEVELS = 4


def read(raw):
    for values in np.random.default_rng(0).normal(size=(160, 2)).astype("float32"):
        yield {"x": values, "y": int(np.clip(round(float(values[0] - values[1]) + 1.5), 0, LEVELS - 1))}


def boxes(raw):
    for row in read(raw):
        yield {**row, "y": [[row["y"], 0.5], [1, 2]]}


def ragged(raw):
    for number, row in enumerate(read(raw)):
        yield {**row, "y": [1.0] * (1 + number % 2)}


def build():
    return nn.Linear(2, LEVELS - 1)


def loss(output, labels):
    above = (labels.unsqueeze(1) > np.arange(LEVELS - 1, dtype="float32")).astype(output.dtype)
    return nn.functional.binary_cross_entropy_with_logits(output, above)


def level(outputs):
    return (outputs > 0).sum(-1)


def closeness(outputs, labels):
    return 1 - np.abs(level(outputs) - labels).mean() / (LEVELS - 1)


def logarithms(outputs, labels):
    return 1 - float(np.abs(np.log(outputs[:, 0]) - np.log(labels)).mean()) if (outputs[:, 0] > 0).all() else float("nan")


def fails(outputs, labels=None):
    return outputs[labels.nothing]


def pairs(outputs, labels=None):
    return np.zeros((3, 2))


def spread(outputs, labels=None):
    return np.zeros(len(outputs))
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "their_levels.py").write_text(MODULE)
    (tmp_path / "raw").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield "their_levels"
    sys.modules.pop("their_levels", None)


def params(reader="read", *, task=None, **changes):
    task = {"metric": "their_levels:closeness", "decision": "their_levels:level", "loss": "their_levels:loss"} if task is None else task
    rows = {"raw": "raw", "reader": f"their_levels:{reader}", "inputs": ["x"], "label": "y", "task": task}
    values = {
        "name": "x",
        "code": {"watch": "their_levels.py"},
        "data": {**rows, "validation": 0.2, "test": 0.2},
        "model": {"factory": "their_levels:build", "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 2]}]},
        "train": {"epochs": 20, "batch_size": 16, "learning_rate": 0.05, "min_score": 0.8},
        "package": {"repository": "x"},
    }
    return loading.parse(loading.merge(values, changes))


def kind(**functions):
    return registry.get(params(task={part: f"their_levels:{name}" for part, name in functions.items()}).data.task)


def test_training_and_its_gate_use_the_metric_and_the_loss_of_the_user(module, tmp_path):
    prepare(params())
    report = train(params())
    assert report.metrics["validation_own_metric"] > 0.8
    assert "own_metric" in report.headline
    assert json.loads((tmp_path / "models/checkpoint/checkpoint.json").read_text())["scores"]["test"] == report.metrics["test_own_metric"]
    gated = train(params(train={"min_score": 1.0}))
    assert [check.name for check in gated.verdict.checks if not check.passed] == ["validation_own_metric"]


def test_decisions_that_change_are_flips_and_the_metric_falls(module):
    """Also where they are no class of the largest score: a level is the number of thresholds that are passed."""
    task = params().data.task
    scores = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
    labels = (scores > 0).sum(-1)
    case = Case("rows", "rows", {"x": np.zeros((200, 1))}, tuple(range(200)))
    known = evidence.gather([case], [{"y": scores}], [{"y": scores.astype(np.float64)}], task=task, labels=labels)
    changed = scores.copy()
    changed[:40, 0] *= -1
    judged = parity.judge(known, [{"y": changed}], limits=Verify(), precision="int8")
    assert judged.metrics["flip_rate"] == pytest.approx(0.2)
    assert judged.metrics["metric_drop"] == pytest.approx(0.2 / 3)
    assert {check.name for check in judged.checks if not check.passed} >= {"flip_rate_high", "metric_drop_high"}
    assert parity.judge(known, [{"y": scores}], limits=Verify(), precision="int8").metrics["flip_rate"] == 0


def test_a_metric_that_is_nan_for_a_lower_precision_fails_and_one_that_is_nan_for_eager_is_reported(module):
    values = np.random.default_rng(0).uniform(1, 9, (200, 1)).astype(np.float32)
    task = params(task={"metric": "their_levels:logarithms"}).data.task
    case = Case("rows", "rows", {"x": np.zeros((200, 1))}, tuple(range(200)))
    changed = values.copy()
    changed[17] = -0.01
    wide, labels = (values.astype(np.float64), changed.astype(np.float64)), values[:, 0]
    known = evidence.gather([case], [{"y": values}], [{"y": wide[0]}], task=task, labels=labels)
    unknown = evidence.gather([case], [{"y": changed}], [{"y": wide[1]}], task=task, labels=labels)
    failed = [str(check) for check in parity.judge(known, [{"y": changed}], limits=Verify(), precision="int8").checks if not check.passed]
    assert [text[: text.index(" ")] for text in failed] == ["metric_drop_high"]
    assert "it is nan for the candidate" in failed[0]
    assert parity.judge(known, [{"y": values}], limits=Verify(), precision="int8")
    assert not parity.judge(unknown, [{"y": changed}], limits=Verify(), precision="int8")
    assert [(found.kind, found.severity) for found in finiteness.findings(unknown)] == [("score-not-finite", "warning")]
    assert finiteness.findings(known) == []


def test_a_decision_of_several_numbers_flips_as_one(module):
    grid = registry.get(params(task={"metric": "their_levels:closeness", "decision": "numpy:sign"}).data.task)
    before = np.ones((3, 2, 2))
    after = before * [[[1, 1], [1, 1]], [[-1, 1], [1, -1]], [[1, 1], [1, 1]]]
    with pytest.raises(ModelError, match=r"'numpy:sign' returned an array of shape .* let it return an array of whole numbers"):
        grid.flips(before, after)
    assert grid.flips(before.astype(int), after.astype(int)).tolist() == [False, True, False]


def test_a_task_without_a_decision_is_judged_by_its_metric(module):
    assert kind(metric="closeness").flips(np.ones((3, 2)), np.zeros((3, 2))) is None


def test_labels_are_names_of_classes_or_arrays_of_one_shape(module):
    report = prepare(params("boxes"))
    assert report.metrics["train_rows"] > 0
    with pytest.raises(DataError, match=r"of shape \[2\], and row 0 has shape \[1\]"):
        prepare(params("ragged"))
    with pytest.raises(DataError, match=r"neither a class id|holds the class id"):
        prepare(params(data={"classes": ["low", "high"]}))
    assert prepare(params(data={"classes": ["a", "b", "c", "d"]})).metrics["train_rows"] > 0


@pytest.mark.parametrize(
    ("part", "name", "words"),
    [
        ("metric", "fails", r"data.task.metric 'their_levels:fails' failed on \[3, 2\] and \[3\] \(.*nothing.*\): fix that function"),
        ("metric", "pairs", r"data.task.metric 'their_levels:pairs' returned an array of shape \[3, 2\]: let it return one number"),
        ("metric", "none", "data.task.metric 'their_levels:none' does not exist"),
        ("decision", "pairs", None),
        ("decision", "spread", r"'their_levels:spread' returned an array of shape \[3\]: let it return an array of whole numbers"),
    ],
)
def test_a_function_that_fails_or_returns_something_else_is_named(module, part, name, words):
    made = kind(**{"metric": "closeness", part: name})
    outputs, labels = np.ones((3, 2)), np.ones(3)
    call = (lambda: made.score.of(outputs, labels)) if part == "metric" else (lambda: made.decision.decide(outputs))
    with pytest.raises(ModelError, match=words):
        call()


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("custom", r"data.task: custom needs the functions of the task: write \{metric: module:function, decision: .*\(got 'custom'\)"),
        ({"loss": "m:loss"}, "data.task: must be the name of a task, or {metric: module:function, .* without decision or loss"),
        ({"metric": "m:a", "los": "m:b"}, r"data.task: must be the name of a task, .*\(got \{'metric': 'm:a', 'los': 'm:b'\}\)"),
        ({"metric": "closeness"}, "data.task: must be module:function"),
    ],
)
def test_other_forms_are_refused_with_the_right_one(task, words):
    with pytest.raises(ParamsError, match=words):
        params(task=task)


def test_params_that_were_written_are_read_again(module):
    task = params().data.task
    assert params(task=task).data.functions == params().data.functions
    assert decisions.get(task).names is None, "a server answers no label"


def test_functions_whose_changes_no_stage_would_see_and_a_missing_loss_are_refused(module, tmp_path):
    (tmp_path / "elsewhere.py").write_text("def metric(outputs, labels):\n    return 1\n")
    with pytest.raises(BadInput, match=r"data.functions.metric 'elsewhere:metric' is in .* not below code.watch"):
        prepare(params(task={"metric": "elsewhere:metric"}))
    without = params(task={"metric": "their_levels:closeness"})
    prepare(without)
    with pytest.raises(ModelError, match=r"data.task has no loss, and train.loss is null"):
        train(without)
