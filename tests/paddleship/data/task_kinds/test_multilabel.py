"""A multilabel task: lists of names in, a JSON list of names in each answer."""

import json

import numpy as np
import pytest

from paddleship.acceptance import judging
from paddleship.config.sections.data import Data
from paddleship.config.sections.verify import Verify
from paddleship.data import dataset
from paddleship.data.dataset import Rows
from paddleship.data.task_kinds import registry
from paddleship.data.task_kinds.registration import UntrainedOutput
from paddleship.errors import DataError, ModelError
from paddleship.promotion import score_comparison
from paddleship.proof import evidence, parity
from paddleship.proof.cases.inputs import Case
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import TensorSpec

CLASSES = ["drama", "a, b", "war"]
KIND = registry.get("multilabel")
RANDOM = np.random.default_rng(0)
LABELS = RANDOM.integers(0, 2, (300, 3))
SCORES = ((2 * LABELS - 1) * RANDOM.uniform(1, 3, (300, 3))).astype(np.float32)


def data(**changes):
    values = {"raw": "raw", "reader": "m:read", "inputs": ["x"], "label": "y", "task": "multilabel", "classes": CLASSES}
    return Data(**values | {"validation": 0.2, "test": 0.2} | changes)


def read(label):
    return KIND.labels.reader("y", CLASSES).read(3, label)


@pytest.mark.parametrize(
    "label",
    [["war", "drama"], ("drama", "war", "war"), {"war", "drama"}, np.array(["war", "drama"])],
    ids=lambda names: type(names).__name__,
)
def test_a_label_is_a_list_of_names_in_any_order(label):
    assert read(label).tolist() == [1, 0, 1]


def test_a_row_may_have_no_label():
    assert read([]).tolist() == [0, 0, 0]


@pytest.mark.parametrize("label", ["war", [0, 1, 0], 1, [["war"]], ["war", 1], np.array([1, 0, 1])], ids=lambda names: type(names).__name__)
def test_a_label_that_is_no_list_of_names_is_refused_with_its_row(label):
    with pytest.raises(DataError, match=r"row 3 of data.reader: column 'y' holds .*, and a multilabel row needs a list of names"):
        read(label)


def test_a_name_that_is_no_class_is_refused():
    with pytest.raises(DataError, match=r"neither a class id nor one of data.classes"):
        read(["comedy"])


def test_classes_must_be_named():
    with pytest.raises(DataError, match="a multilabel task needs the names of all labels"):
        KIND.labels.reader("y", [])


def test_rows_are_stored_and_read_again_and_equal_rows_with_other_labels_are_dropped(tmp_path):
    rows = [{"x": [float(index)], "y": [name for name, one in zip(CLASSES, LABELS[index], strict=True) if one]} for index in range(300)]
    rows += [{"x": [0.0], "y": ["drama"]}, {"x": [0.0], "y": ["war"]}]
    splits, counts = dataset.clean(rows, data())
    assert counts.contradictory >= 2
    dataset.write(splits, {}, tmp_path)
    again = dataset.read(tmp_path, "train")
    assert again.labels.dtype == np.int64
    for value, label in zip(again.columns["x"], again.labels, strict=True):
        assert label.tolist() == LABELS[int(np.ravel(value)[0])].tolist()


def test_the_score_counts_every_label_and_the_other_only_whole_rows():
    outputs = np.array([[1, -1, 1], [1, 1, -1]], np.float32)
    labels = np.array([[1, 0, 1], [1, 0, 0]])
    assert KIND.score.of(outputs, labels) == pytest.approx(6 / 7)
    assert KIND.further["exact_match"](outputs, labels, CLASSES) == 0.5
    assert KIND.score.of(np.zeros((2, 3)), np.ones((2, 3), int)) == 0
    assert np.isnan(KIND.score.of(np.zeros((2, 3)), np.zeros((2, 3), int)))


def test_the_constant_answer_is_the_best_set_of_frequent_labels():
    labels = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 0, 1]])
    best = max(KIND.score.of(np.tile(np.array(one, float), (4, 1)), labels) for one in ([1, 0, 0], [1, 1, 0], [1, 1, 1]))
    assert KIND.score.of(KIND.constant(labels, np.zeros((4, 3)), labels).outputs, labels) == pytest.approx(best)


def test_a_model_that_learned_nothing_and_a_label_that_is_never_answered_are_findings():
    assert KIND.findings(SCORES, LABELS, CLASSES) == []
    found = KIND.findings(np.where([True, False, True], SCORES, -1), LABELS, CLASSES)
    assert [(one.kind, one.severity) for one in found] == [("unchosen-class", "warning")]
    assert "'a, b'" in found[0].message
    same = KIND.findings(np.full((300, 3), -1.0), LABELS, CLASSES)
    assert [one.kind for one in same] == ["no-skill", "unchosen-class"]


def test_the_first_output_must_have_one_logit_for_each_class():
    with pytest.raises(ModelError, match=r"has 2 logits, and data.classes names 3 classes"):
        KIND.check_output(UntrainedOutput("scores", [8, 2], 8, CLASSES, [LABELS], own_loss=True))
    assert KIND.check_output(UntrainedOutput("scores", [8, 3], 8, CLASSES, [LABELS], own_loss=False)) == []


def test_training_rows_must_differ_in_their_labels():
    with pytest.raises(DataError, match="all rows of the training part have the same labels"):
        KIND.labels.require(np.ones((4, 3), int), CLASSES)


def test_the_label_of_an_answer_is_a_json_list_of_names():
    specs = (TensorSpec("scores", "float32", ("batch", 3)),)
    served = Candidate("x", "m", "onnxruntime", "float32", 1, (), specs, {"kind": "tensors"}, "", "multilabel", classes=tuple(CLASSES))
    assert [json.loads(label) for label in served.label_rows(np.array([[1, 2, -1], [-1, -1, -1]]))] == [["drama", "a, b"], []]


def known():
    cases = [Case("rows", "rows", {"x": np.arange(300, dtype=np.float32)[:, None]}, tuple(range(300)))]
    return evidence.gather(cases, [{"scores": SCORES}], [{"scores": SCORES.astype(np.float64)}], task="multilabel", labels=LABELS)


def test_a_lower_precision_is_judged_by_the_sets_that_change():
    changed = SCORES.copy()
    changed[:30] *= [1, -1, -1]
    judged = parity.judge(known(), [{"scores": changed}], limits=Verify(), precision="int8")
    assert judged.metrics["flip_rate"] == pytest.approx(0.1), "two labels of a row are one flip"
    assert judged.metrics["metric_drop"] > 0
    assert not judged
    assert parity.judge(known(), [{"scores": SCORES}], limits=Verify(), precision="int8")
    assert parity.decisions(known(), [{"scores": SCORES}]) is None


def answers(scores):
    labels = KIND.decision.names(scores > 0, CLASSES)
    return [{"scores": row[None], "label": np.array([label], object)} for row, label in zip(scores, labels, strict=True)]


def test_a_server_that_names_other_labels_is_refused_unless_eager_is_undecided():
    served = judging.ServedCandidate("float32", tuple(CLASSES), "multilabel")
    given = {"scores": SCORES, "label": np.array(KIND.decision.names(SCORES > 0, CLASSES), object)}
    assert judging.label_faults([given], known(), served, Verify()) == []
    wrong = given | {"label": np.array(['["war"]'] * 300, object)}
    assert judging.label_faults([wrong], known(), served, Verify())
    assert KIND.margin(np.array([1e-7, 2.0]), np.array([-1e-7, 3.0])) == pytest.approx(1e-7)


def test_two_models_are_compared_by_score_and_by_sets_that_change():
    rows = Rows({"x": [float(index) for index in range(300)]}, LABELS, [str(index) for index in range(300)])
    worse = SCORES.copy()
    worse[:30] *= -1
    found = score_comparison.compare(rows, answers(SCORES), answers(worse), task="multilabel", classes=CLASSES)
    assert (found.metric, found.champion, found.flips) == ("micro_f1", 1, 30)
    assert found.drop.low > 0
    assert found.examples[0]["champion"] == found.examples[0]["label"] != found.examples[0]["challenger"]
