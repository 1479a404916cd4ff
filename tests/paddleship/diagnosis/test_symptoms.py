"""What the answers alone tell of a fault."""

import numpy as np
import pytest

from paddleship.diagnosis import symptoms
from paddleship.proof import evidence
from paddleship.proof.cases.inputs import Case
from paddleship.shipped.computing.spec import TensorSpec

SPECS = (TensorSpec("x", "float32", ("batch", "length")),)
SIZES = [(1, 4), (2, 4), (2, 9), (5, 4), (5, 9)]


@pytest.fixture
def proof():
    random = np.random.default_rng(0)
    cases = [Case(f"{rows} by {length}", "rows", {"x": random.normal(size=(rows, length)).astype(np.float32)}) for rows, length in SIZES]
    truth = [{"a": np.cumsum(case.inputs["x"].astype(np.float64), 1)[:, :3], "b": case.inputs["x"][:, :3] ** 2.0} for case in cases]
    reference = [{name: array.astype(np.float32) for name, array in answer.items()} for answer in truth]
    return evidence.gather(cases, reference, truth)


def read(proof, answers):
    return symptoms.read(proof, answers, SPECS, limit=8)


def test_right_answers_have_no_symptoms(proof):
    assert read(proof, proof.reference) == []


def test_wrong_from_one_batch_size_on_is_said_so(proof):
    answers = [{name: array + (len(array) > 2) for name, array in answer.items()} for answer in proof.reference]
    (finding,) = read(proof, answers)
    assert finding.kind == "shape-specific"
    assert "right for batch up to 2, wrong for batch 5" in finding.message


def test_wrong_for_one_length_is_said_so(proof):
    answers = [
        {name: array + (case.inputs["x"].shape[1] == 9) for name, array in answer.items()}
        for case, answer in zip(proof.cases, proof.reference, strict=True)
    ]
    (finding,) = read(proof, answers)
    assert "right for length 4, wrong for length 9" in finding.message


def test_wrong_everywhere_is_no_matter_of_shape(proof):
    assert read(proof, [{name: array + 1 for name, array in answer.items()} for answer in proof.reference]) == []


def test_a_case_is_wrong_where_it_has_a_number_instead_of_eagers_infinity(proof):
    for answer in (*proof.truth, *proof.reference):
        answer["a"][:, 0] = -np.inf
    answers = [{name: array.copy() for name, array in answer.items()} for answer in proof.reference]
    answers[3]["a"][0, 0] = 1000
    assert [ratio > 8 for ratio in symptoms.case_ratios(proof, answers)] == [False, False, False, True, False]


def test_exchanged_outputs_are_named(proof):
    answers = [{"a": answer["b"], "b": answer["a"]} for answer in proof.reference]
    assert [finding.kind for finding in read(proof, answers)] == ["output-structure"]
    assert "'a' is eager's 'b'" in read(proof, answers)[0].message


def test_answers_to_the_question_before_are_named(proof):
    same = [proof.cases[place] for place in (1, 1, 1)]
    random = np.random.default_rng(1)
    cases = [Case(f"{place}", "rows", {"x": random.normal(size=case.inputs["x"].shape)}) for place, case in enumerate(same)]
    truth = [{"a": case.inputs["x"] * 2} for case in cases]
    late = evidence.gather(cases, [{"a": answer["a"].astype(np.float32)} for answer in truth], truth)
    answers = [late.reference[0], late.reference[0], late.reference[1]]
    assert [finding.kind for finding in read(late, answers)] == ["not-deterministic"]


def test_coarse_answers_to_like_questions_are_not_taken_for_each_others(proof):
    cases = [Case(f"{place}", "rows", {"x": np.full((2, 4), np.pi + place * 1e-6, np.float32)}) for place in range(4)]
    truth = [{"a": case.inputs["x"].astype(np.float64) ** 2} for case in cases]
    alike = evidence.gather(cases, [{"a": answer["a"].astype(np.float32)} for answer in truth], truth)
    coarse = [{"a": (answer["a"] - 9.5 * alike.noise["rows"]["a"].largest).astype(np.float64)} for answer in truth]
    assert all(ratio > 8 for ratio in symptoms.case_ratios(alike, coarse))
    assert abs(coarse[1]["a"] - truth[0]["a"]).max() < 8 * alike.noise["rows"]["a"].largest
    assert read(alike, coarse) == []


def test_an_answer_of_another_form_counts_as_wrong(proof):
    answers = [*proof.reference[:-1], {"a": proof.reference[-1]["a"]}]
    assert symptoms.case_ratios(proof, answers)[-1] == float("inf")


@pytest.mark.parametrize(("error", "found"), [(1e-6, True), (1e-2, False)])
def test_an_output_that_is_the_same_in_every_case_and_differs_by_rounding_is_called_so(proof, error, found):
    truth = [{**answer, "loss": np.array(-2500.0)} for answer in proof.truth]
    reference = [{**answer, "loss": np.array(-2500.0, np.float32)} for answer in proof.reference]
    both = evidence.gather(proof.cases, reference, truth)
    answers = [{**answer, "loss": np.array(-2500.0 * (1 + error), np.float32)} for answer in reference]
    findings = read(both, answers)
    assert [(one.kind, "only loss differs" in one.message) for one in findings] == ([("wrong-answers", True)] if found else [])
    answers[0]["a"] = answers[0]["a"] + 1
    assert not [one for one in read(both, answers) if one.kind == "wrong-answers"]
