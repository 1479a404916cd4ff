"""What a client gets beside the outputs (params.answer): classes and labels with probabilities, and answers of the user's code."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from paddleship.config import loading
from paddleship.errors import CandidateError, ParamsError
from paddleship.shipped.computing.answers import loading as answers
from paddleship.shipped.computing.answers import probabilities
from paddleship.shipped.computing.candidate import FILE, Candidate
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.shipped.serving.model import ServedModel
from paddleship.shipped.serving.transports.http.inference import JsonModel
from tests.paddleship.shipped.serving.candidates import make_tensors


def made(folder, answer, *, task="classification", classes=("否", "yes"), code=None):
    """The candidate of two scores, x0 + x1 and -x0, with these answers."""
    make_tensors(folder)
    if code is not None:
        (folder / "code").mkdir()
        (folder / "code/their_boxes.py").write_text(code)
    candidate = replace(Candidate.read(folder), answer=answer, task=task, classes=classes).save(folder)
    return answers.load(folder, candidate)


def of(scores):
    return {"scores": np.array(scores, np.float32), "logs": np.zeros((len(scores), 2), np.float32)}


def test_top_names_the_largest_scores_with_their_probabilities(tmp_path):
    first, second = made(tmp_path, {"top": 2, "scores": "logits"}).rows(of([[1, 3], [1000, -1000]]))
    assert [one["label"] for one in first] == ["yes", "否"]
    assert [one["probability"] for one in first] == pytest.approx([1 / (1 + math.exp(-2)), 1 / (1 + math.exp(2))], rel=1e-6)
    assert [one["probability"] for one in second] == [1, 0], "large scores overflow nothing"


@pytest.mark.parametrize(
    ("dtype", "scores", "best"),
    [
        ("uint8", [0, 200, 5], ["b", "c"]),
        ("bool", [True, False, True], ["a", "c"]),
        ("int64", [-(2**63), 2**53, 2**53 + 1], ["c", "b"]),
        ("float16", [1, 65504, 65504], ["b", "c"]),
        ("float32", [1, 1, 1], ["a", "b"]),
    ],
)
def test_top_orders_scores_of_any_dtype_and_equal_ones_as_the_classes(tmp_path, dtype, scores, best):
    facts = {"task": "classification", "classes": ("a", "b", "c"), "outputs": (TensorSpec("s", dtype, ("batch", 3)),)}
    candidate = replace(Candidate.load(make_tensors(tmp_path)), answer={"top": 2}, **facts)
    values = np.array([scores], dtype)
    (row,) = answers.load(tmp_path, candidate).rows({"s": values})
    assert [one["label"] for one in row] == best
    assert candidate.label_rows(values) == best[:1]


def test_scores_that_are_probabilities_stay_as_they_are(tmp_path):
    (first,) = made(tmp_path, {"top": 1, "scores": "probabilities"}).rows(of([[0.25, 0.75]]))
    assert first == [{"label": "yes", "probability": 0.75}]


def test_each_label_has_the_threshold_that_is_given_for_it(tmp_path):
    answering = made(tmp_path, {"above": {"yes": 0.9}, "scores": "logits"}, task="multilabel")
    scores = [[0.1, 2.1], [-0.1, 2.3], [-800, 800]]  # 0.9 is the probability of 2.197
    first, second, third = answering.rows(of(scores))
    assert [one["label"] for one in first] == ["否"]
    assert first[0]["probability"] == pytest.approx(1 / (1 + math.exp(-0.1)), rel=1e-6)
    assert [[one["label"] for one in row] for row in (second, third)] == [["yes"], ["yes"]]
    assert (answering.decided(np.float32(scores)) > 0).tolist() == [[True, False], [False, True], [False, True]]


@pytest.mark.parametrize("threshold", [0.4, 0.5, 0.7, 0.1, 1e-3, 0.999999, 0.9999999, 0.99999999, 0.12345678, 1e-12, 1 - 1e-16])
@pytest.mark.parametrize("form", ["logits", "probabilities"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_probability_that_is_shown_as_the_threshold_is_not_above_it(tmp_path, threshold, form, dtype):
    """Around the threshold, and around the score from which on the next number is shown."""
    answering = made(tmp_path, {"above": threshold, "scores": form}, task="multilabel")
    near = [dtype(probabilities.logit(one) if form == "logits" else one) for one in (threshold, probabilities.cutoff(threshold))]
    scores = np.array([one * (1 + step * np.finfo(dtype).eps) for one in near for step in range(-40, 41)], dtype).reshape(-1, 2)
    rows = answering.rows(of(scores) | {"scores": scores})
    shown = [[one["label"] for one in row] for row in rows]
    assert all(one["probability"] > threshold for row in rows for one in row)
    assert shown == [json.loads(text) for text in Candidate.read(tmp_path).label_rows(answering.decided(scores))]
    one_more = np.array([[1.000002, 1.000002]]) * threshold
    if form == "probabilities" and threshold < 0.99:
        (row,) = answering.rows(of(one_more) | {"scores": one_more})
        assert len(row) == 2, "the next numbers are above it"


def test_probabilities_of_any_score_are_finite():
    scores = np.array([-1e30, -800, -1, 0, 1, 800, 1e30], np.float32)
    with np.errstate(over="raise", invalid="raise"):
        assert probabilities.sigmoid(scores)[[0, 3, 6]].tolist() == [0, 0.5, 1]
        assert probabilities.softmax(scores[None]).sum() == pytest.approx(1)


BOXES = """
import numpy as np

def boxes(outputs, classes):
    scores = outputs["scores"]
    best = scores.argmax()
    return {"label": classes[best], "score": scores[best], "box": scores.round().astype(int), "shape": outputs["logs"].shape}

def opaque(outputs, classes):
    return {"label": {1, 2}}

def infinite(outputs, classes):
    return float("inf")

def half(outputs, classes):
    return {"text": "\\ud83d"}

def fails(outputs, classes):
    return outputs["nothing"]

def in_place(outputs, classes):
    for array in outputs.values():
        array += 1
    return list(outputs.values())
"""


def test_a_function_of_the_user_answers_row_by_row(tmp_path):
    answering = made(tmp_path, {"own": "their_boxes:boxes"}, code=BOXES)
    first, second = answering.rows(of([[1.25, 3], [2, 0]]))
    assert first == {"label": "yes", "score": 3.0, "box": [1, 3], "shape": [2]}
    assert second["label"] == "否"
    assert json.loads(json.dumps(first)) == first


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("opaque", "'their_boxes:opaque' failed on the outputs of a row .*returned set, which JSON cannot hold"),
        ("infinite", "Out of range float values are not JSON"),
        ("half", "'their_boxes:half' failed on the outputs of a row .*surrogates not allowed"),
        ("fails", r"nothing.*their_boxes.py.*fix that function"),
    ],
)
def test_a_function_that_fails_is_named(tmp_path, function, words):
    answering = made(tmp_path, {"own": f"their_boxes:{function}"}, code=BOXES)
    with pytest.raises(CandidateError, match=words):
        answering.rows(of([[1, 2]]))


@pytest.mark.parametrize(
    ("answer", "facts", "words"),
    [
        ({"top": 3}, {}, "answer.top is 3, and there are 2 classes: lower it"),
        ({"top": 1}, {"classes": ()}, "answer.top needs a first output with one score for each class"),
        ({"above": {"maybe": 0.2}}, {"task": "multilabel"}, "answer.above names 'maybe', which is not in data.classes"),
        ({"own": "their_boxes:none"}, {"code": BOXES}, "answer.own 'their_boxes:none' does not import .*has no attribute 'none'"),
        ({"own": "their_boxes:boxes"}, {"code": "import pytest_of_nobody"}, "imports 'pytest_of_nobody', which is neither in its copy"),
        ({"own": "elsewhere:boxes"}, {"code": BOXES}, "imports 'elsewhere', which is neither in its copy nor in the image"),
        ({"magic": 1}, {}, "there is no answer {'magic': 1}"),
    ],
)
def test_an_answer_that_the_candidate_cannot_give_is_refused_when_it_is_loaded(tmp_path, answer, facts, words):
    with pytest.raises(CandidateError, match=words):
        made(tmp_path, answer, **facts)


def test_the_code_belongs_to_the_candidate_by_its_hash(tmp_path):
    made(tmp_path, {"own": "their_boxes:boxes"}, code=BOXES)
    (tmp_path / "code/their_boxes.py").write_text(BOXES.replace("round", "floor"))
    with pytest.raises(CandidateError, match=r"their_boxes.py changed since the candidate was made"):
        ServedModel(tmp_path)


def test_a_candidate_without_answers_is_written_as_before(tmp_path):
    candidate = Candidate.load(make_tensors(tmp_path))
    assert "answer" not in json.loads((tmp_path / FILE).read_text())
    assert Candidate.read(tmp_path) == candidate
    assert answers.load(tmp_path, candidate) is None


def reply(folder, values):
    model = JsonModel(ServedModel(folder))
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [len(values), 2], "data": values}]}
    columns = model.columns(body)
    return model, {one["name"]: one for one in json.loads(model.reply(model.model.predict(columns)).content)["outputs"]}


def test_a_server_adds_the_answer_as_json_and_says_in_its_metadata_what_it_is(tmp_path):
    made(tmp_path, {"top": 2, "scores": "logits"})
    model, outputs = reply(tmp_path, [[1, 2], [5, 1]])
    assert (outputs["answer"]["datatype"], outputs["answer"]["shape"]) == ("BYTES", [2])
    first = json.loads(outputs["answer"]["data"][0])
    assert [one["label"] for one in first] == ["否", "yes"]
    assert outputs["label"]["data"] == ["否", "否"]
    assert {"name": "answer", "datatype": "BYTES", "shape": [-1]} in model.metadata()["outputs"]
    assert model.metadata()["parameters"]["answer"] == {"top": 2, "scores": "logits"}


def test_the_label_of_a_server_has_the_thresholds_of_the_answer(tmp_path):
    made(tmp_path, {"above": {"yes": 0.001, "否": 0.9999}, "scores": "logits"}, task="multilabel")
    _, outputs = reply(tmp_path, [[1, 2]])  # the scores 3 and -1
    assert json.loads(outputs["label"]["data"][0]) == ["yes"] == [one["label"] for one in json.loads(outputs["answer"]["data"][0])]


@pytest.mark.parametrize(
    ("overlay", "words"),
    [
        ({"answer": "best"}, r"answer: must be label, \{top: NUMBER\}, \{above: THRESHOLD\} or \{own: module:function\} \(got 'best'\)"),
        ({"answer": {"top": 0}}, "answer.top.top: must be greater than or equal to 1"),
        (
            {"answer": {"above": 0.5}},
            r"answer.above is for multilabel, multilabel_probabilities \(data.task is classification\): use answer.own, or remove it",
        ),
        ({"answer": {"own": "boxes"}}, "answer.own.own: must be module:function"),
    ],
)
def test_an_answer_of_another_form_or_task_is_refused_with_the_params(base_params, overlay, words):
    with pytest.raises(ParamsError, match=words):
        loading.parse(loading.merge(base_params, overlay))


def test_an_output_without_the_batch_is_given_with_every_row(tmp_path):
    x = TensorSpec("x", "float32", ("batch", 2))
    candidate = Candidate(
        name="a", model="m", runtime="onnxruntime", precision="float32", threads=1, inputs=(x,), preprocess={"kind": "tensors"},
        outputs=(TensorSpec("y", "float32", ("batch", 2)), TensorSpec("anchors", "float32", (3,))), weights_sha256="0" * 64,
        answer={"own": "their_anchors:count"},
    )  # fmt: skip
    (tmp_path / "code").mkdir()
    (tmp_path / "code/their_anchors.py").write_text("def count(outputs, classes):\n    return [o.shape[0] for o in outputs.values()]\n")
    answering = answers.load(tmp_path, candidate.save(tmp_path))
    assert answering.rows({"y": np.zeros((5, 2)), "anchors": np.zeros(3)}) == [[2, 3]] * 5


def test_a_function_that_works_in_place_changes_neither_the_outputs_nor_the_next_row(tmp_path):
    made(tmp_path, {"own": "their_boxes:in_place"}, code=BOXES)
    outputs = (*Candidate.read(tmp_path).outputs, TensorSpec("anchors", "float32", (1,)))
    answering = answers.load(tmp_path, replace(Candidate.read(tmp_path), outputs=outputs).save(tmp_path))
    given = {"scores": np.zeros((2, 2)), "logs": np.zeros((2, 2)), "anchors": np.zeros(1)}
    assert answering.rows(given) == [[[1, 1], [1, 1], [1]]] * 2
    assert not any(array.any() for array in given.values())
