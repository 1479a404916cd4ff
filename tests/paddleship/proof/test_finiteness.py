"""Agreement on NaN and infinity proves nothing, and is named."""

import numpy as np
import pytest

from paddleship.proof import evidence, exercise, finiteness
from paddleship.proof.cases.inputs import Case

ROWS = np.linspace(-1, 1, 8, dtype=np.float32).reshape(8, 1)
CASES = [Case("all rows", "rows", {"x": ROWS}, tuple(range(8))), Case("highest", "edge", {"x": np.float32([[9.0]])}, ())]


def gathered(reference, truth=None):
    """The evidence for answers given as functions of the batch."""
    with np.errstate(all="ignore"):
        answers = [{"output": reference(case.inputs["x"]).astype(np.float32)} for case in CASES]
        exact = [{"output": (truth or reference)(case.inputs["x"].astype(np.float64))} for case in CASES]
    return evidence.gather(CASES, answers, exact)


@pytest.mark.parametrize(
    ("reference", "share"),
    [
        (
            lambda x: np.where(x > 0.9, np.inf, x),
            "12.50% of the numbers of output output are NaN or infinite in 1 of 1 batches of real rows",
        ),
        (lambda x: np.where(x < 0, np.nan, x), "50.00%"),
    ],
)
def test_real_rows_with_an_answer_that_is_not_finite_are_an_error_with_the_share(reference, share):
    found = finiteness.findings(gathered(reference))
    (error,) = (item for item in found if item.severity == "error")
    assert error.kind == "not-finite"
    assert share in error.message


def test_an_overflow_of_float32_alone_is_an_error():
    found = finiteness.findings(gathered(lambda x: np.where(x > 0, -np.inf, x), lambda x: x))
    assert [item.severity for item in found][:1] == ["error"]


def test_a_mask_of_minus_infinity_is_named_and_no_error():
    (finding,) = finiteness.findings(gathered(lambda x: np.where((x > 0) & (x < 2), -np.inf, x)))
    assert finding.severity == "note"


@pytest.mark.parametrize(("kind", "size"), [(np.float16, 1e5), (np.float32, 1e39)])
def test_an_overflow_of_a_cast_in_forward_is_no_mask_although_float64_is_minus_infinite_too(kind, size):
    (error, *_) = finiteness.findings(gathered(lambda x: (-np.abs(x.astype(np.float64)) * size).astype(kind)))
    assert error.severity == "error"
    (finding, *_) = finiteness.findings(gathered(lambda x: np.where(x > 0, -np.inf, x.astype(np.float16))))
    assert finding.severity == "note", "a mask beside numbers of float16"


def test_an_edge_case_that_is_not_finite_is_a_note_and_finite_answers_are_nothing():
    (finding,) = finiteness.findings(gathered(lambda x: np.where(x > 2, np.inf, x)))
    assert finding.severity == "note"
    assert finiteness.findings(gathered(lambda x: x)) == []


def test_infinity_and_nan_are_no_variation_of_a_constant():
    constant = gathered(lambda x: np.where(x > 2, np.nan, np.zeros_like(x)))
    assert exercise.outputs(constant, limit=8)["output"].startswith("the same for all inputs")


def test_an_output_whose_first_row_is_masked_varies_with_the_others():
    assert exercise.outputs(gathered(lambda x: np.where(x < -0.9, -np.inf, x)), limit=8, real=True) == {}


def test_a_saturated_output_is_not_exercised_and_a_mask_of_0_and_1_is():
    saturated = gathered(lambda x: (x > 0).astype(x.dtype), lambda x: 1 / (1 + np.exp(-1e2 * x)))
    assert exercise.outputs(saturated, limit=8)["output"].startswith("0 or 1 in 100.00%")
    assert exercise.outputs(gathered(lambda x: (x > 0).astype(x.dtype)), limit=8) == {}


@pytest.mark.parametrize(
    ("steep", "ends"),
    [
        (lambda x: np.tanh(300 * x), "-1 or 1"),
        (lambda x: np.clip(2e4 * x, -3.5, 3.5), "-3.5 or 3.5"),
        (lambda x: 10 / (1 + np.exp(-2e3 * x)), "0 or 10"),
    ],
    ids=["tanh", "clip", "scaled"],
)
def test_a_saturated_output_is_found_whatever_its_two_ends_are(steep, ends):
    with np.errstate(over="ignore"):
        rounded = gathered(lambda x: steep(x.astype(np.float64)).astype(x.dtype), lambda x: steep(np.where(np.abs(x) > 1, x, x / 1e3)))
        assert exercise.outputs(rounded, limit=8)["output"].startswith(f"{ends} in ")
    assert exercise.masks(rounded) == []


def test_two_values_without_any_between_are_a_mask_that_is_named():
    signs = gathered(lambda x: np.sign(x) + (x == 0))
    assert exercise.outputs(signs, limit=8) == {}
    (finding,) = exercise.masks(signs)
    assert finding.severity == "warning"
    assert "output is -1 or 1 in every case" in finding.message
    assert exercise.masks(gathered(lambda x: x)) == []


def test_a_row_that_is_in_many_batches_counts_once():
    rows = np.array([[-1.0], [0.5]], np.float32)
    numbers = ([0], [1], [0, 1], [1, 0])
    cases = [Case(str(index), "rows", {"x": rows[list(chosen)]}, tuple(chosen)) for index, chosen in enumerate(numbers)]
    answers = [{"output": case.inputs["x"]} for case in cases]
    two = evidence.gather(cases, answers, [{"output": one["output"].astype(float)} for one in answers])
    assert exercise.outputs(two, limit=8) == {}
    assert exercise.masks(two) == []


def test_an_output_that_varies_for_an_edge_case_alone_is_not_exercised():
    alone = gathered(lambda x: np.where(x > 2, x, 0 * x + 3))
    assert exercise.outputs(alone, limit=8, real=True)["output"] == "the same for all inputs in all of 1 batches of rows"


def test_a_saturated_output_is_named_with_the_share_also_if_a_few_numbers_are_not_and_an_edge_case_is_not():
    steep = np.linspace(-1, 1, 400, dtype=np.float32).reshape(400, 1)
    cases = [Case("all rows", "rows", {"x": steep}, tuple(range(400))), Case("zeros", "edge", {"x": np.zeros((1, 1), np.float32)}, ())]

    def asked(output):
        answers = [{"output": output(case.inputs["x"]).astype(np.float32)} for case in cases]
        return exercise.outputs(evidence.gather(cases, answers, [{"output": one["output"].astype(float)} for one in answers]), limit=8)

    with np.errstate(over="ignore"):
        assert asked(lambda x: 1 / (1 + np.exp(-1e4 * x)))["output"].startswith("0 or 1 in 9")
        assert asked(lambda x: 1 / (1 + np.exp(-9 * x))) == {}, "a confident probability"
        assert asked(lambda x: np.maximum(x, 0)) == {}, "a rectifier"
        assert asked(lambda x: np.where(x > 0.9, x, 0)) == {}, "probabilities with padding"
