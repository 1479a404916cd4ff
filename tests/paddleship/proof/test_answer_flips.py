"""What a client gets beside the outputs: a difference in it is a flip, as a difference of classes is."""

import json

import numpy as np
import pytest

from paddleship.acceptance import judging
from paddleship.config.sections.verify import Verify
from paddleship.proof import answer_flips, evidence, parity
from paddleship.proof.cases.inputs import Case
from paddleship.proof.parity import Judgement
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


CHANGED = SCORES + np.random.default_rng(1).normal(0, 0.3, SCORES.shape).astype(np.float32)


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (lambda row: {"price": float(row[0]) if row[0] > 0 else None}, lambda row: row[0] > 0),
        (lambda row: {"price": float(row[0]) if row[0] > 0 else "none"}, lambda row: row[0] > 0),
        (lambda row: {"stars": float(np.round(row[0])), "p": float(row[1])}, lambda row: np.round(row[0])),
        (lambda row: bool(row[1] > 0) if row[0] > 0 else int(row[1] > 0), lambda row: tuple(row[:2] > 0)),
        (lambda row: [float(one) for one in row if one > 0], lambda row: (row > 0).sum()),
    ],
    ids=["none", "text", "rounded", "kind", "count"],
)
def test_what_is_decided_in_an_answer_flips_with_it(answer, decision):
    answering = Answering(lambda outputs: [answer(row) for row in outputs["y"]])
    wanted = np.mean([decision(one) != decision(other) for one, other in zip(SCORES, CHANGED, strict=True)])
    assert held(CHANGED, answering, "int8").metrics["answer_flip_rate"] == pytest.approx(wanted)
    assert wanted > 0.02


@pytest.mark.parametrize("size", [1, 2.0**24], ids=["saturated", "large"])
def test_numbers_that_happen_to_be_whole_do_not_flip_by_a_little(size):
    """A probability of 1 that becomes 0.9999, and a price that is too large for a fraction in float32."""
    scaled = Answering(lambda outputs: [{"p": float(row[0] * np.float32(size))} for row in outputs["y"]])
    before, after = np.ones((ROWS, 4), np.float32), np.full((ROWS, 4), 0.9999, np.float32)
    judged = answer_flips.hold(
        Judgement({"noise_ratio": 1.0}, []), known(before), outputs(after), scaled, limits=Verify(), precision="int8"
    )
    assert judged.metrics["answer_flip_rate"] == 0


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"a": 0.1, "b": 0.2}, {"b": 0.2, "a": 0.1000001}, True),
        ({"a": 0.1, "b": 0.2}, {"a": 0.2, "b": 0.1}, False),
        ([0.1, 0.2, 0.3], [0.1, 0.2, None], False),
        ([0.1, 0.2, 0.3], [0.1, 0.2], False),
        ([1], [True], False),
        ([1], [1], True),
        ("a", "b", False),
    ],
)
def test_two_answers_are_the_same_but_for_rounding(one, other, equal):
    assert answer_flips.same(one, other) == equal


def test_flips_of_a_float32_candidate_are_reported_and_judged_by_its_noise():
    judgement = held(SCORES, ORDER, "float32")
    assert judgement.metrics["answer_flip_rate"] == 0
    assert judgement


@pytest.mark.parametrize("form", [str, float])
def test_a_function_that_answers_by_chance_proves_nothing(form):
    random = np.random.default_rng(0)
    (found,) = answer_flips.findings(known(), {}, Answering(lambda outputs: [form(random.random()) for _ in outputs["y"]]))
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
