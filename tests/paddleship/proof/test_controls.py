"""The judge is given wrong answers in every run: a rule that passes wrong answers is reported, an ordinary one is not."""

import numpy as np
import pytest

from paddleship.config.sections.verify import Verify
from paddleship.proof import controls, evidence
from paddleship.proof.cases.inputs import Case
from paddleship.proof.controls import FLOAT32, LOWER

RANDOM = np.random.default_rng(0)
ROWS = 64
LABELS = np.arange(ROWS) % 3
CASES = [
    Case("row 0 alone", "rows", {"x": np.zeros((1, 1), np.float32)}, (0,)),
    Case("all rows", "rows", {"x": np.zeros((ROWS, 1), np.float32)}, tuple(range(ROWS))),
]
LIMITS = Verify()


def known(output, noise=1e-7, **more):
    """Evidence about one output, whose reference is off the truth by `noise` of the scale."""
    truth = np.asarray(output)
    size = np.abs(np.where(np.abs(truth) < 1e8, truth, 0)).max()
    wobble = noise * size * RANDOM.choice([-1, 1], truth.shape) if truth.dtype.kind == "f" else 0
    reference = (truth + wobble).astype(np.float32 if truth.dtype.kind == "f" else truth.dtype)
    pairs = [[{"output": array[:1]}, {"output": array}] for array in (reference, truth)]
    return evidence.gather(CASES, pairs[0], pairs[1], **more)


def tried(found, **options):
    return {control.change: control.refused for control in controls.run(found, limits=LIMITS, **options)}


def scores(*shape):
    return RANDOM.normal(size=(ROWS, *shape))


ORDINARY = {
    "scores": scores(5),
    "one column": scores(1),
    "no column": scores(),
    "tiny": scores(5) * 1e-9,
    "series": scores(24, 3),
    "positive": np.abs(scores(5)) + 1,
    "sigmoids": 1 / (1 + np.exp(-scores(5))),
    "masked": np.where(scores(5) > 0.5, -1e9, scores(5)),
    "classes": RANDOM.integers(0, 9, ROWS),
    "flags": scores(5) > 0,
    "constant": np.full((ROWS, 5), 3.0),
    "the same in each row": np.tile(RANDOM.normal(size=5), (ROWS, 1)),
    "zero": np.zeros((ROWS, 5)),
    "empty": np.zeros((ROWS, 0)),
    "symmetric": np.tile([1.0, 2.0, 1.0], (ROWS, 1)),
    "barely varying": 5 + 1e-3 * scores(4),
}


@pytest.mark.parametrize("name", ORDINARY)
@pytest.mark.parametrize("task", [None, "classification", "regression"])
def test_an_ordinary_noise_refuses_every_control(name, task):
    output = ORDINARY[name]
    labels = output.astype(np.float64) if task == "regression" else LABELS
    if name == "empty":
        two = [{"output": part, "more": np.ones((len(part), 1), np.float32)} for part in (output[:1], output)]
        found = evidence.gather(CASES, two, two, task=task, labels=labels)
    else:
        found = known(output, task=task, labels=labels)
    done = controls.run(found, limits=LIMITS, lower=True)
    assert [control for control in done if not control.refused] == []
    assert not controls.accepted(done, FLOAT32, LIMITS)


def test_all_kinds_of_wrong_answers_are_tried():
    assert set(tried(known(scores(24, 3)))) == {
        "all zero", "halved", "negated", "shifted", "given to other rows", "reversed along axis 1", "reversed along axis 2", "shuffled"
    }  # fmt: skip
    assert set(tried(known(RANDOM.integers(1, 9, (ROWS, 2))))) >= {"all zero", "halved", "negated", "shifted", "given to other rows"}
    assert set(tried(known(scores(4) > 0))) == {"all zero", "negated", "given to other rows", "reversed along axis 1", "shuffled"}


def test_a_control_that_changes_nothing_is_left_out():
    assert tried(known(np.zeros((ROWS, 5)))) == {}
    assert not {"given to other rows", "reversed along axis 1"} & set(tried(known(np.tile([1.0, 2.0, 1.0], (ROWS, 1)))))
    assert "given to other rows" not in tried(known(np.full((ROWS, 5), 3.0)))


def test_a_unit_that_is_too_large_is_found_out_by_the_wrong_answers_that_it_passes():
    done = controls.run(known(scores(24, 3), noise=0.375), limits=LIMITS)
    assert all(not control.refused for control in done)
    (finding,) = controls.accepted(done, FLOAT32, LIMITS)
    assert (finding.kind, finding.severity) == ("failed-control", "error")
    assert "'output'" in finding.message
    assert "all zero (noise_ratio is " in finding.message
    assert "limit 8" in finding.message


def test_limits_that_were_raised_are_the_cause_and_not_eager_or_the_number_of_rows():
    limits = Verify(noise_limit=2e6, typical_limit=1e6, samples=8)
    (finding,) = controls.accepted(controls.run(known(scores(24, 3)), limits=limits), FLOAT32, limits)
    raised = "verify.noise_limit 2000000 (default 8), verify.typical_limit 1000000 (default 3)"
    assert finding.advice.startswith(
        f"limits of verify are weaker than their defaults ({raised}): remove them from the params, or look for "
    )
    few = Verify(samples=8)
    (finding,) = controls.accepted(controls.run(known(scores(24, 3), noise=0.375), limits=few), FLOAT32, few)
    assert finding.advice.startswith("eager float32 is too inaccurate for this output: ")


def test_a_unit_that_passes_only_a_shift_is_found_out_too():
    done = tried(known(scores(5), noise=0.04))
    assert not done["shifted"]
    assert done["negated"]


def test_a_lower_precision_is_not_held_to_float32_and_its_own_rule_has_its_own_controls():
    done = controls.run(known(scores(3) + 6 * np.eye(3)[LABELS], task="classification", labels=LABELS), limits=LIMITS, lower=True)
    assert {control.rule for control in done} == {FLOAT32, LOWER}
    assert not controls.accepted(done, LOWER, LIMITS)
    loose = Verify(max_flip_rate=1.0, max_metric_drop=1.0)
    two = known(scores(3), task="classification", labels=LABELS)
    assert all(control.refused for control in controls.run(two, limits=loose, lower=True)), "size and place still count"


def test_a_rule_for_decisions_that_allows_everything_is_found_out():
    whole = known(RANDOM.integers(0, 9, (ROWS, 3)))
    limits = Verify(max_flip_rate=1.0)
    found = controls.accepted(controls.run(whole, limits=limits, lower=True), LOWER, limits)
    assert not found, "a share of changes that may be 1 leaves no control that tells"
    assert controls.run(whole, limits=Verify(max_flip_rate=0.15), lower=True)


def test_a_large_output_is_judged_on_as_many_numbers_as_are_needed():
    batches = [
        Case(f"batch {start}", "rows", {"x": np.zeros((8, 1), np.float32)}, tuple(range(start, start + 8))) for start in range(0, 64, 8)
    ]
    given = [{"image": RANDOM.normal(size=(8, 300, 300)).astype(np.float32)} for _ in batches]
    found = evidence.gather(batches, given, [{"image": one["image"].astype(np.float64)} for one in given])
    assert len(controls._enough(found).cases) < len(batches)
    assert all(control.refused for control in controls.run(found, limits=LIMITS))
