"""Scores against classes: what fits, what is refused with both numbers, and when a server gives no label."""

from dataclasses import replace

import pytest

from paddleship.data.task_kinds import class_scores
from paddleship.errors import ModelError
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import TensorSpec

NAMES = [f"class {index}" for index in range(9)]


def check(shape, names=NAMES, *, largest_id=8, own_loss=False):
    return class_scores.check("logits", shape, rows=8, classes=names, largest_id=largest_id, own_loss=own_loss)


def test_one_score_for_each_class_is_right():
    assert check([8, 9]) == []
    assert check([8, 12], [], largest_id=8) == []
    assert check([8, 9], [], largest_id=8) == []


@pytest.mark.parametrize(
    ("shape", "names", "words"),
    [
        ([8, 12], NAMES, "'logits' has 12 logits, and data.classes names 9 classes: let forward return [batch, 9]"),
        ([8, 5], NAMES, "'logits' has 5 logits, and data.classes names 9 classes"),
        ([8, 5], [], "'logits' has 5 logits, and the labels go from 0 to 8"),
        ([8], NAMES, "'logits' has the shape [8] for a batch of 8"),
        ([9, 8], NAMES, "'logits' has the shape [9, 8] for a batch of 8"),
        ([8, 4, 9], NAMES, "'logits' has the shape [8, 4, 9] for a batch of 8"),
        ([], NAMES, "'logits' has the shape [] for a batch of 8"),
        ([8, 1], NAMES[:2], "'logits' has 1 logits, and data.classes names 2 classes"),
    ],
)
def test_other_shapes_are_refused_with_both_numbers(shape, names, words):
    with pytest.raises(ModelError) as caught:
        check(shape, names)
    assert words in str(caught.value)


def test_one_logit_under_a_loss_of_its_own_is_a_warning():
    (finding,) = check([8, 1], NAMES[:2], own_loss=True)
    assert (finding.kind, finding.severity) == ("class-count", "warning")
    with pytest.raises(ModelError):
        check([8, 1], own_loss=True)


@pytest.mark.parametrize(
    ("outputs", "names", "task", "severity"),
    [
        ([("logits", ["batch", 9])], NAMES, "classification", None),
        ([("logits", ["batch", 12])], NAMES, "classification", "warning"),
        ([("logits", ["batch", "some"])], NAMES, "classification", "warning"),
        ([("logits", ["batch", 9]), ("label", ["batch"])], NAMES, "classification", "warning"),
        ([("logits", ["batch", 9])], [], "classification", "note"),
        ([("value", ["batch", 1])], [], "regression", None),
    ],
)
def test_a_candidate_that_gives_no_label_is_a_finding(outputs, names, task, severity):
    specs = tuple(TensorSpec(name, "float32", tuple(shape)) for name, shape in outputs)
    base = Candidate("x", "m", "onnxruntime", "float32", 1, (), specs, {"kind": "tensors"}, "", task, classes=tuple(names))
    found = [finding.severity for finding in class_scores.unlabelled(base)]
    assert found == ([severity] if severity else [])
    if task == "classification":
        assert bool(base.labels) == (severity is None)
        assert replace(base, outputs=()).labels == ()
