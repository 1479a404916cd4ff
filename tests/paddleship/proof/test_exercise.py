"""What was empty, constant or without influence is named; what varies is not suspected."""

import numpy as np
import pytest

from paddleship.proof import evidence, exercise
from paddleship.proof.cases.inputs import Case

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(8, 2)).astype(np.float32)
CASES = [
    Case("row 0 alone", "rows", {"x": ROWS[:1], "y": ROWS[:1, :1]}, (0,)),
    Case("all rows", "rows", {"x": ROWS, "y": ROWS[:, :1]}, tuple(range(8))),
]


def still(output, cases=CASES):
    """What is said of an output that is given as a function of the batch."""
    reference = [{"output": np.asarray(output(case.inputs["x"])), "other": case.inputs["x"].copy()} for case in cases]
    truth = [{name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in one.items()} for one in reference]
    return exercise.outputs(evidence.gather(cases, reference, truth), limit=8).get("output", "")


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (lambda x: x[:0], "empty in all of 2 batches"),
        (lambda x: np.zeros((len(x), 0), np.float32), "empty in all of 2 batches"),
        (lambda x: np.zeros((len(x), 3), np.float32), "the same for all inputs"),
        (lambda x: np.tile(np.float32([1, 2, 3]), (len(x), 1)), "the same for all inputs"),
        (lambda x: np.ones(len(x), np.int64), "the same for all inputs"),
        (lambda x: np.ones((len(x), 2), bool), "the same for all inputs"),
        (lambda x: np.float32(len(x) > 0), "the same for all inputs"),
        (lambda x: 5 + 1e-7 * x, "the same for all inputs"),
    ],
)
def test_an_output_that_was_empty_or_constant_is_named(output, words):
    assert still(output).startswith(words)


@pytest.mark.parametrize(
    "output",
    [
        lambda x: x,
        lambda x: x * 1e-9,
        lambda x: 5 + 1e-4 * x,
        lambda x: x.argmax(1),
        lambda x: x.sum(),
        lambda x: (x > 0.5)[:1],
        lambda x: x[x[:, 0] > 0],
    ],
)
def test_an_output_that_varies_is_not_suspected(output):
    assert not still(output)


def test_one_row_is_not_enough_to_call_an_output_constant():
    once = [Case("row 0 alone", "rows", {"x": ROWS[:1]}, (0,)), Case("twice", "rows", {"x": ROWS[[0, 0]]}, (0, 0))]
    assert not still(lambda x: np.zeros((len(x), 3), np.float32), once)


def test_of_the_first_output_it_is_an_error_and_of_another_a_warning():
    found = exercise.findings({"boxes": "empty", "masks": "empty"}, {"steps": "changed nothing"}, first="boxes")
    assert [(finding.kind, finding.severity) for finding in found] == [
        ("not-exercised", "error"),
        ("not-exercised", "warning"),
        ("not-exercised", "warning"),
    ]
    assert [finding.layer for finding in found] == ["boxes", "masks", "steps"]
    assert str(found[0]).startswith("error: not-exercised: output boxes was empty, so it was not exercised and nothing is proven of it\n")


def inputs(answer, cases=CASES):
    return exercise.inputs(answer, cases, [answer(case.inputs) for case in cases])


def test_an_input_that_changes_nothing_is_named_and_one_that_does_is_not():
    assert set(inputs(lambda batch: {"output": batch["x"] * 2})) == {"y"}
    assert not inputs(lambda batch: {"output": batch["x"] * batch["y"]})
    assert not inputs(lambda batch: {"output": batch["x"]}, [Case("all", "rows", {"x": ROWS}, tuple(range(8)))])


def test_an_input_that_is_the_same_in_all_rows_says_so():
    same = [Case("all rows", "rows", {"x": ROWS, "y": np.ones((8, 1), np.float32)}, tuple(range(8)))]
    assert inputs(lambda batch: {"output": batch["x"] * batch["y"]}, same) == {"y": "was the same in all rows that were compared"}


def test_a_flag_that_few_rows_have_is_looked_for_in_the_batches_that_have_it():
    flags = np.zeros((40, 1), np.float32)
    flags[30] = 1
    rows = np.arange(160, dtype=np.float32).reshape(40, 4)
    cases = [
        Case(f"{start}", "rows", {"x": rows[start : start + 4], "flag": flags[start : start + 4]}, (1, 2, 3, 4))
        for start in range(0, 40, 4)
    ]
    assert not inputs(lambda batch: {"output": batch["x"].sum(1) + 5 * batch["flag"][:, 0]}, cases)


def test_an_input_whose_other_values_eager_refuses_has_an_influence():
    def answer(batch):
        return {"output": batch["x"]} if np.array_equal(batch["y"], batch["x"][:, :1]) else "it does not fit"

    assert not inputs(answer)


def test_an_output_that_varies_within_a_large_noise_is_the_controls_business():
    reference = [{"output": case.inputs["x"].copy()} for case in CASES]
    truth = [{"output": -one["output"].astype(np.float64)} for one in reference]
    assert not exercise.outputs(evidence.gather(CASES, reference, truth), limit=8)


def test_one_answer_that_is_not_empty_exercises_an_output_that_was_empty_otherwise():
    boxes = [np.zeros((0, 4), "float32"), np.zeros((0, 4), "float32"), np.ones((2, 4), "float32")]
    cases = [Case(str(number), "rows", {"x": np.full((1, 3), number, "float32")}) for number in range(3)]
    assert exercise.unvarying(cases[:2], [{"boxes": one} for one in boxes[:2]], {}) == {"boxes": "empty in all of 2 batches"}
    assert not exercise.unvarying(cases, [{"boxes": one} for one in boxes], {})
