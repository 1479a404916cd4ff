"""What a client gets beside the outputs: a difference in it is a flip, as a difference of classes is."""

import json

import numpy as np
import pytest

from paddleship.acceptance import judging
from paddleship.config.sections.verify import Verify
from paddleship.proof import answer_flips, evidence, parity
from paddleship.proof.cases.inputs import Case
from paddleship.shipped.computing.answers.registration import Answering

ROWS = 300
SCORES = np.random.default_rng(0).normal(size=(ROWS, 4)).astype(np.float32)
ORDER = Answering(lambda outputs: [[{"rank": int(one), "p": float(row[one])} for one in (-row).argsort()[:3]] for row in outputs["y"]])
BOX = Answering(lambda outputs: [{"box": (row * 8).round().astype(int).tolist()} for row in outputs["y"]])


def known(scores=SCORES):
    cases = [Case(f"rows {start}", "rows", {"x": np.zeros((100, 1))}, tuple(range(start, start + 100))) for start in (0, 100, 200)]
    cases += [Case("row 0", "rows", {"x": np.zeros((1, 1))}, (0,)), Case("zeros", "edges", {"x": np.zeros((2, 1))}, ())]
    outputs = [{"y": scores[[*case.rows] or [0, 1]]} for case in cases]
    return evidence.gather(cases, outputs, [{"y": one["y"].astype(np.float64)} for one in outputs], task="classification")


def outputs(scores):
    return [{"y": scores[[*case.rows] or [0, 1]]} for case in known().cases]


def held(scores, answering, precision):
    judgement = parity.judge(known(), outputs(scores), limits=Verify(), precision=precision)
    return answer_flips.hold(judgement, known(), outputs(scores), answering, limits=Verify(), precision=precision)


def failed(judgement):
    return {check.name for check in judgement.checks if not check.passed}


def test_an_order_that_changes_below_the_first_place_is_a_flip_of_the_answer_and_of_no_class():
    changed = SCORES.copy()
    for row in range(30):
        second, third = (-changed[row]).argsort()[1:3]
        changed[row, [second, third]] = changed[row, [third, second]]
    judgement = held(changed, ORDER, "int8")
    assert judgement.metrics["flip_rate"] == 0
    assert judgement.metrics["answer_flip_rate"] == pytest.approx(0.1)
    assert "answer_flip_rate_high" in failed(judgement)
    assert "answer_flip_rate_high" not in failed(held(SCORES, ORDER, "int8"))


def test_numbers_that_move_a_little_are_no_flip_and_whole_numbers_are():
    assert held(SCORES * 1.0001, ORDER, "int8").metrics["answer_flip_rate"] == 0
    assert held(SCORES + 0.2, BOX, "int8").metrics["answer_flip_rate"] == 1


def test_flips_of_a_float32_candidate_are_reported_and_judged_by_its_noise():
    judgement = held(SCORES, ORDER, "float32")
    assert judgement.metrics["answer_flip_rate"] == 0
    assert judgement


def test_a_function_that_answers_by_chance_proves_nothing():
    random = np.random.default_rng(0)
    (found,) = answer_flips.findings(known(), {}, Answering(lambda outputs: [str(random.random()) for _ in outputs["y"]]))
    assert (found.kind, found.severity) == ("random-answer", "error")
    assert answer_flips.findings(known(), {}, ORDER) == []


@pytest.mark.parametrize(
    ("scores", "form", "severity"),
    [(1 / (1 + np.exp(-SCORES)), "logits", "warning"), (SCORES, "probabilities", "error"), (SCORES, "logits", None)],
)
def test_probabilities_that_are_computed_twice_or_not_at_all_are_reported(scores, form, severity):
    found = answer_flips.findings(known(scores.astype(np.float32)), {"top": 1, "scores": form}, ORDER)
    assert [(one.kind, one.severity) for one in found] == ([("scores-form", severity)] if severity else [])


@pytest.mark.parametrize(("moved", "precision", "right"), [(1e-7, "float32", True), (0.5, "float32", False), (0.5, "int8", True)], ids=str)
def test_a_server_may_answer_otherwise_than_eager_within_its_noise_only(moved, precision, right):
    """The first whole number is 2 where eager's value is below a half of a step, and 3 above it."""
    eager = np.full((1, 4), (2.5 - 1e-8) / 8, np.float32)
    case = Case("row", "rows", {"x": np.zeros((1, 1))}, (0,))
    made = evidence.gather([case], [{"y": eager}], [{"y": eager.astype(np.float64)}])
    beside = {"y": eager + np.float32(moved)}
    served = judging.ServedCandidate(precision, answering=BOX)
    answer = beside | {"answer": np.array([json.dumps(BOX.rows(beside)[0])], object)}
    assert (not judging.answer_faults([answer], made, served, BOX, Verify())) == right
    other = beside | {"answer": np.array([json.dumps({"box": [9, 9, 9, 9]})], object)}
    assert judging.answer_faults([other], made, served, BOX, Verify()), "the answer must be that of the outputs beside it"
    assert judging.answer_faults([beside], made, served, BOX, Verify()) == ["row: no answer"]
