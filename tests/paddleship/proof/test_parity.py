"""The rule: no further from the truth than eager itself, times a limit; every gate fires and lets pass."""

import numpy as np
import pytest

from paddleship.config.sections.verify import Verify
from paddleship.errors import CandidateError
from paddleship.numerics import differences
from paddleship.proof import evidence as evidences
from paddleship.proof import parity
from paddleship.proof.cases.inputs import Case
from paddleship.proof.evidence import Evidence

LABELS = np.arange(300) % 3
LIMITS = Verify()


def case(name, rows, group="rows"):
    return Case(name, group, {"x": np.asarray(rows, np.float32)[:, None]}, tuple(rows) if group == "rows" else ())


CASES = (case("row 0 alone", [0]), case("batch of 2", [0, 1]), case("rows 0 to 299", range(300)), case("zeros", [0, 0], "edge"))


def network(rows, dtype, scale):
    """Three scores a row, the right class ahead by a margin."""
    random = np.random.default_rng(0)
    table = random.normal(size=(300, 3)) + 6 * np.eye(3)[LABELS]
    return (scale * table[[int(row) for row in rows]]).astype(dtype)


def answers(dtype=np.float32, scale=1.0):
    return [{"logits": network(case.inputs["x"][:, 0], dtype, scale)} for case in CASES]


def evidence(scale=1.0, **changes):
    truth = answers(np.float64, scale)
    facts = {"task": "classification", "labels": LABELS} | changes
    return evidences.gather(CASES, answers(np.float32, scale), truth, **facts)


def changed(change, scale=1.0):
    """The reference's answers with something done to the array of each case."""
    return [{"logits": change(case, answer["logits"].copy())} for case, answer in zip(CASES, answers(scale=scale), strict=True)]


def judge(given, known=None, **options):
    return parity.judge(known or evidence(), given, limits=LIMITS, **options)


def test_the_reference_itself_is_proven():
    judgement = judge(answers())
    assert judgement
    assert judgement.metrics["noise_ratio"] <= 1
    assert judgement.metrics["flip_rate"] == 0
    assert judgement.metrics["cosine"] == pytest.approx(1)


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e4])
def test_zeros_never_pass_however_small_the_outputs_are(scale):
    assert not judge(changed(lambda _, array: array * 0, scale), evidence(scale))


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e4])
def test_honest_rounding_passes_whatever_the_size(scale):
    wobble = np.float32(1 + 2**-23)
    assert judge(changed(lambda _, array: array * wobble, scale), evidence(scale))


def test_a_small_fault_in_every_answer_shows_in_the_typical_error():
    judgement = judge(changed(lambda _, array: array + np.float32(1.5e-6)))
    failed = {check.name for check in judgement.checks if not check.passed}
    assert failed == {"typical_ratio"}
    assert judgement.metrics["noise_ratio"] < LIMITS.noise_limit


def test_a_fault_in_one_edge_case_is_not_hidden_by_the_rows():
    def change(case, array):
        return array + np.float32(1e-4) if case.name == "zeros" else array

    judgement = judge(changed(change))
    assert not judgement
    assert judgement.worst_case == "logits, zeros"


def test_nan_in_candidate_always_fails():
    def change(case, array):
        if len(case.rows) == 300:
            array[7, 0] = np.nan
        return array

    judgement = parity.judge(evidence(), changed(change), limits=Verify(noise_limit=1e9, typical_limit=1e9))
    assert not judgement
    assert judgement.findings[0].kind == "not-finite"
    assert "rows 0 to 299" in judgement.findings[0].message


def test_nan_where_eager_has_one_too_is_no_fault():
    known = evidence()
    known.truth[0]["logits"][0, 0] = known.reference[0]["logits"][0, 0] = np.nan
    assert judge(known.reference, known)


@pytest.mark.parametrize(
    "change",
    [
        lambda answer: {"other": answer["logits"]},
        lambda answer: {"logits": answer["logits"], "more": answer["logits"]},
        lambda answer: {"logits": answer["logits"].astype(np.float16)},
        lambda answer: {"logits": answer["logits"][:, :2]},
        lambda answer: {"logits": answer["logits"][None]},
    ],
    ids=["name", "count", "dtype", "shape", "rank"],
)
def test_another_form_of_answer_fails(change):
    judgement = judge([change(answer) for answer in answers()])
    assert not judgement
    assert judgement.findings[0].kind == "another-form"


def test_whole_numbers_must_be_the_same_wherever_eager_agrees_with_the_truth():
    reference = [{"id": answer["logits"].argmax(-1)} for answer in answers()]
    known = evidences.gather(CASES, reference, reference)
    assert parity.judge(known, reference, limits=LIMITS)
    other = [{"id": answer["id"].copy()} for answer in reference]
    other[2]["id"][5] = (other[2]["id"][5] + 1) % 3
    assert not parity.judge(known, other, limits=LIMITS)


def test_swapped_classes_are_seen_as_flips():
    judgement = judge(changed(lambda _, array: array[:, ::-1].copy()))
    assert not judgement
    assert judgement.metrics["flip_rate"] > 0.3
    assert judgement.metrics["metric_drop"] > 0.3


def test_a_lower_precision_is_judged_by_its_decisions():
    coarse = changed(lambda _, array: array.round(1))
    assert not judge(coarse)
    judgement = judge(coarse, precision="int8")
    assert judgement
    assert judgement.metrics["flip_rate_low"] <= judgement.metrics["flip_rate"] <= judgement.metrics["flip_rate_high"]


def test_a_lower_precision_that_flips_decisions_fails_by_the_unfavourable_end_of_the_interval():
    def change(case, array):
        if len(case.rows) == 300:
            array[:5] = array[:5, ::-1]
        return array

    judgement = judge(changed(change), precision="int8")
    assert judgement.metrics["flip_rate"] < LIMITS.max_flip_rate
    assert {check.name for check in judgement.checks if not check.passed} >= {"flip_rate_high"}


def test_a_lower_precision_without_decisions_cannot_pass():
    judgement = judge(answers(), evidence(task=None), precision="int8")
    assert not judgement
    assert "labelled rows" in str(judgement.checks[0])


def test_comparing_nothing_is_an_error():
    with pytest.raises(CandidateError, match="nothing can be decided"):
        judge([])
    with pytest.raises(CandidateError, match="nothing to compare"):
        evidences.gather([], [], [])


def test_without_float64_the_noise_is_what_a_nudge_shows():
    nudged = changed(lambda _, array: array * np.float32(1 + 1e-5))
    known = evidences.gather(CASES, answers(), None, nudged=[nudged], why="a custom operator knows float32 only")
    assert known.rule == evidences.MEASURED_NOISE
    assert known.noise["rows"]["logits"].largest / known.noise["rows"]["logits"].scale == pytest.approx(1e-5, rel=0.2)
    assert judge(nudged, known)
    assert not judge(changed(lambda _, array: array + np.float32(1e-2)), known)


def test_a_measured_noise_is_bounded_however_far_a_nudge_moves_the_answers():
    known = evidences.gather(CASES, answers(), None, nudged=[changed(lambda _, array: -array)], why="it draws lots")
    noise = known.noise["rows"]["logits"]
    assert noise.largest == noise.typical == evidences.NOISE_CEILING * noise.scale
    for wrong in (lambda _, array: array * 0, lambda _, array: array / 2, lambda _, array: array[:, ::-1].copy()):
        assert not judge(changed(wrong), known)


def test_a_nudge_that_changes_shapes_or_overflows_is_no_noise():
    nudged = changed(lambda case, array: array[:1] if case.name == "zeros" else np.full_like(array, np.inf))
    known = evidences.gather(CASES, answers(), None, nudged=[nudged])
    assert known.noise["rows"]["logits"].largest == evidences.NOISE_FLOOR * known.noise["rows"]["logits"].scale


def test_a_whole_number_that_a_nudge_changes_is_not_compared_and_every_other_one_is():
    reference = [{"id": answer["logits"].argmax(-1) * 10**9} for answer in answers()]
    nudged = [{"id": answer["id"].copy()} for answer in reference]
    nudged[2]["id"][5] += 1
    known = evidences.gather(CASES, reference, None, nudged=[nudged])
    for place, passes in ((5, True), (6, False)):
        other = [{"id": answer["id"].copy()} for answer in reference]
        other[2]["id"][place] += 1
        assert bool(judge(other, known)) == passes


def test_evidence_survives_disk(tmp_path):
    evidence().save(tmp_path)
    back = Evidence.load(tmp_path)
    assert [case.name for case in back.cases] == [case.name for case in CASES]
    assert back.noise == evidence().noise
    assert judge(answers(), back)
    assert judge(answers()[:1], back.only(lambda case: case.name == "row 0 alone"))


def test_evidence_that_was_measured_by_nudging_survives_disk(tmp_path):
    known = evidences.gather(CASES, answers(), None, nudged=[changed(lambda _, array: array * np.float32(1 + 1e-5))], why="it refuses")
    known.save(tmp_path)
    back = Evidence.load(tmp_path)
    assert (back.rule, back.why, back.noise) == (known.rule, known.why, known.noise)


@pytest.mark.parametrize("name", ["inputs.npz", "truth.npz", "reference.npz", "labels.npy"])
def test_evidence_that_changed_since_it_was_written_is_refused(tmp_path, name):
    evidence().save(tmp_path)
    content = bytearray((tmp_path / name).read_bytes())
    content[-1] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CandidateError, match=rf"{name} changed since it was written.*paddleship run --again verify"):
        Evidence.load(tmp_path)


def test_missing_evidence_says_what_to_run(tmp_path):
    with pytest.raises(CandidateError, match="paddleship run --again verify"):
        Evidence.load(tmp_path)


def test_required_atol_is_what_allclose_needs():
    mine, theirs = np.float32([1.0, 2.0, -3.0]), np.float32([1.0, 2.001, -3.0])
    needed = differences.differences(mine, theirs).required_atol
    assert np.allclose(mine, theirs, rtol=1e-5, atol=needed * 1.001)
    assert not np.allclose(mine, theirs, rtol=1e-5, atol=needed * 0.9)


def test_the_interval_of_a_share_is_the_textbooks():
    assert differences.proportion_interval(0, 256) == pytest.approx((0, 0.014307), abs=1e-5)
    assert differences.proportion_interval(8, 40) == pytest.approx((0.0905, 0.3565), abs=1e-3)
    assert differences.proportion_interval(40, 40) == pytest.approx((0.9119, 1), abs=1e-3)


def test_neighbouring_floats_are_one_ulp_apart_through_zero():
    tiny = np.float32(1e-45)
    pairs = [(np.float32(1), np.nextafter(np.float32(1), np.float32(2)), 1), (-tiny, tiny, 2), (np.float32(5), np.float32(5), 0)]
    for mine, theirs, apart in pairs:
        assert differences.ulps(np.array([mine]), np.array([theirs])).tolist() == [apart]
