"""A multilabel model that ends with its own sigmoid: everything is decided at one half, and a task of the other form is refused."""

import json

import numpy as np
import paddle
import pytest

from paddleship.config import loading
from paddleship.data.task_kinds import registry, score_form
from paddleship.errors import ParamsError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import TensorSpec

CLASSES = ["drama", "sci fi", "war"]
LOGITS, KIND = registry.get("multilabel"), registry.get("multilabel_probabilities")
RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(0, 2, (200, 3))
SCORES = ((2 * LABELS - 1) * RANDOM.uniform(-0.5, 3, (200, 3))).astype(np.float32)
SHARES = (1 / (1 + np.exp(-SCORES))).astype(np.float32)


def test_probabilities_are_scored_as_their_logits_are():
    assert 0 < LOGITS.score.of(SCORES, LABELS) < 1
    assert KIND.score.of(SHARES, LABELS) == LOGITS.score.of(SCORES, LABELS)
    assert np.array_equal(KIND.score.contributions(SHARES, LABELS), LOGITS.score.contributions(SCORES, LABELS))
    assert KIND.further["exact_match"](SHARES, LABELS, CLASSES) == LOGITS.further["exact_match"](SCORES, LABELS, CLASSES)
    assert KIND.per_class(SHARES, LABELS, CLASSES) == LOGITS.per_class(SCORES, LABELS, CLASSES)
    assert KIND.findings(SHARES, LABELS, CLASSES) == LOGITS.findings(SCORES, LABELS, CLASSES)


def test_the_loss_of_probabilities_is_that_of_their_logits():
    shares, scores, labels = (paddle.to_tensor(one) for one in (SHARES, SCORES, LABELS))
    assert float(KIND.loss(shares, labels)) == pytest.approx(float(LOGITS.loss(scores, labels)), rel=1e-4)


def test_baselines_answer_in_probabilities_too():
    constant = KIND.constant(LABELS, SHARES, LABELS).outputs
    assert KIND.score.of(constant, LABELS) == LOGITS.score.of(LOGITS.constant(LABELS, SCORES, LABELS).outputs, LABELS)
    features = LABELS + RANDOM.normal(0, 0.1, LABELS.shape)
    linear = KIND.linear.fit(features, LABELS)(features)
    assert KIND.score.of(linear, LABELS) == LOGITS.score.of(LOGITS.linear.fit(features, LABELS)(features), LABELS) > 0.9


def test_a_decision_changes_at_one_half():
    assert KIND.margin(np.array([0.5 + 1e-7, 0.9]), np.array([0.5 - 1e-7, 0.6])) == pytest.approx(1e-7)
    specs = (TensorSpec("shares", "float32", ("batch", 3)),)
    task = "multilabel_probabilities"
    served = Candidate("x", "m", "onnxruntime", "float32", 1, (), specs, {"kind": "tensors"}, "", task, classes=tuple(CLASSES))
    given = np.array([[0.51, 0.5, 0.9], [0.1, 0.4, 0.2]], np.float32)
    assert [json.loads(label) for label in served.label_rows(given)] == [["drama", "war"], []]


@pytest.mark.parametrize(
    ("kind", "outputs", "said"),
    [(LOGITS, SHARES, "multilabel_probabilities"), (KIND, SCORES, "multilabel"), (LOGITS, SCORES, None), (KIND, SHARES, None)],
    ids=["probabilities as logits", "logits as probabilities", "logits", "probabilities"],
)
def test_outputs_of_the_other_form_are_named_with_the_task_to_set(kind, outputs, said):
    found = score_form.findings(kind.decision, [outputs[:100], outputs[100:]], "error")
    assert [(one.kind, one.severity) for one in found] == ([("scores-form", "error")] if said else [])
    assert all(one.advice.endswith(f"set data.task to {said}") for one in found)


def test_a_task_without_a_form_reads_any_outputs():
    assert score_form.findings(registry.get("classification").decision, [SHARES], "error") == []


@pytest.mark.parametrize(
    ("task", "form", "right"),
    [
        ("multilabel", "logits", True),
        ("multilabel", "probabilities", False),
        ("multilabel_probabilities", "probabilities", True),
        ("multilabel_probabilities", "logits", False),
    ],
)
def test_the_answer_reads_scores_as_the_task_does(base_params, task, form, right):
    overlay = {"data": {"task": task, "classes": CLASSES}, "answer": {"above": 0.4, "scores": form}}
    values = loading.merge(base_params, overlay)
    if right:
        loading.parse(values)
        return
    with pytest.raises(ParamsError, match=rf"answer.scores is {form}, and data.task {task} reads"):
        loading.parse(values)
