"""What should not change, and how much of a program's departure its candidates carry."""

import numpy as np
import pytest

from paddleship.config.sections.verify import Verify
from paddleship.proof import evidence, invariance, invariance_checks, parity
from paddleship.proof.cases.inputs import Case
from paddleship.reports.finding import Finding

ROWS = 64
SETTINGS = Verify()


def known():
    """Eager's answers with a noise of about 1e-6 on answers of about 1."""
    random = np.random.default_rng(0)
    truth = [{"scores": random.normal(size=(ROWS, 4))}]
    reference = [{"scores": (truth[0]["scores"] + random.uniform(-1e-6, 1e-6, (ROWS, 4))).astype(np.float32)}]
    case = Case("rows", "rows", {"x": np.zeros((ROWS, 1), np.float32)}, tuple(range(ROWS)))
    return evidence.gather([case], reference, truth)


def shifted(found, times, *, start=None):
    """The answers with one of them off by `times` eager's noise."""
    scores = (start if start is not None else found.reference[0]["scores"]).copy()
    scores[5, 1] += np.float32(times * found.noise["rows"]["scores"].largest)
    return [{"scores": scores}]


def judge(found, answers):
    return parity.judge(found, answers, limits=SETTINGS)


@pytest.mark.parametrize(("times", "departs"), [(0, False), (1.5, False), (2.5, True), (5, True)])
def test_a_program_departs_from_twice_the_noise_on(times, departs):
    found = known()
    answers = shifted(found, times)
    judgement = judge(found, answers)
    held = invariance_checks.hold_to_eager(judgement, found, answers, settings=SETTINGS)
    assert judgement, "too small for the limits of another runtime"
    assert invariance_checks.departs(held) == departs
    assert bool(held) == (not departs)


def test_a_candidate_shares_the_departure_that_is_in_it_under_its_own_rounding():
    found = known()
    otherwise = (found.truth[0]["scores"] + np.random.default_rng(1).uniform(-1e-6, 1e-6, (ROWS, 4))).astype(np.float32)
    program, moved, innocent = shifted(found, 3), shifted(found, 3, start=otherwise), [{"scores": otherwise}]
    assert invariance.shared(found, program, moved) > 0.5
    assert invariance.shared(found, program, innocent) < 0.5
    assert not invariance_checks.hold_to_program(judge(found, moved), found, moved, program=program)
    assert invariance_checks.hold_to_program(judge(found, innocent), found, innocent, program=program)


def test_answers_of_another_form_are_left_to_the_check_of_their_form():
    found = known()
    wrong = [{"scores": found.reference[0]["scores"][:3]}]
    judgement = judge(found, wrong)
    assert invariance_checks.hold_to_eager(judgement, found, wrong, settings=SETTINGS) == judgement
    assert not invariance_checks.departs(judgement)


def test_a_lower_precision_may_change_as_much_as_it_is_wrong():
    found = known()
    coarse = [{"scores": found.reference[0]["scores"].astype(np.float16).astype(np.float32)}]
    judgement = parity.judge(found, coarse, limits=SETTINGS, precision="bfloat16")
    assert invariance_checks.limits(judgement, SETTINGS, precision="bfloat16")["repeat_ratio"] == 2 * judgement.metrics["noise_ratio"] > 8
    assert invariance_checks.limits(judgement, SETTINGS, precision="float32")["repeat_ratio"] == SETTINGS.invariance_limit


@pytest.mark.parametrize(
    ("kind", "settings", "independent"),
    [
        ("no-float64", {}, True),
        ("batch-dependent", {}, False),
        ("random-forward", {}, False),
        ("no-float64", {"noise_limit": 1e5}, False),
        ("no-float64", {"invariance_limit": 3}, False),
        ("no-float64", {"noise_limit": 4}, True),
    ],
)
def test_rows_are_independent_only_if_no_batch_changed_an_answer_by_the_usual_limits(kind, settings, independent):
    found = [Finding(kind, "note", "words")]
    assert invariance.rows_are_independent(found, Verify(**settings), rows=8) is independent
    assert not invariance.rows_are_independent(found, Verify(**settings), rows=7)
