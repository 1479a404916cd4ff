import numpy as np
import pytest

from paddleship import parity
from paddleship.errors import CandidateError

CASES = parity.make_cases([1, 5, 3, 2], max_batch=3)


def answers(scale=1.0, dtype=np.float32, seed=0, **changes):
    random = np.random.default_rng(seed)
    made = [{"logits": (scale * random.normal(size=(len(case.rows), 3))).astype(dtype)} for case in CASES]
    for answer in made:
        answer.update({name: change(answer["logits"]) for name, change in changes.items()})
    return made


def evidence(scale=1.0):
    truth = answers(scale, np.float64)
    return parity.gather(CASES, [{"logits": answer["logits"].astype(np.float32)} for answer in truth], truth, classifier=True)


def disturbed(amount, scale=1.0):
    return [{"logits": (answer["logits"] + np.float32(amount * scale)).astype(np.float32)} for answer in evidence(scale).reference]


def test_cases_cover_every_row_alone_and_together():
    assert {row for case in CASES for row in case.rows} == {0, 1, 2, 3}
    assert [case.rows for case in CASES if "alone" in case.name] == [(0,), (0,), (2,), (1,)]
    assert max(len(case.rows) for case in CASES) == 3


def test_the_reference_itself_is_proven():
    judgement = parity.judge(evidence(), evidence().reference, noise_limit=8)
    assert judgement
    assert judgement.metrics["noise_ratio"] <= 1
    assert judgement.metrics["flip_rate"] == 0


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e4])
def test_an_error_above_the_noise_fails_at_every_scale(scale):
    assert not parity.judge(evidence(scale), disturbed(1e-4, scale), noise_limit=8)


@pytest.mark.parametrize("scale", [1e-7, 1.0, 1e4])
def test_zeros_never_pass_however_small_the_outputs_are(scale):
    zeros = [{"logits": np.zeros_like(answer["logits"])} for answer in evidence(scale).reference]
    assert not parity.judge(evidence(scale), zeros, noise_limit=8)


def test_nan_in_candidate_always_fails():
    broken = evidence().reference
    broken[-1]["logits"][0, 0] = np.nan
    judgement = parity.judge(evidence(), broken, noise_limit=1e9)
    assert not judgement
    assert "NaN" in judgement.worst_case


def test_nan_where_eager_has_one_too_is_no_fault():
    known = evidence()
    known.truth[0]["logits"][0, 0] = known.reference[0]["logits"][0, 0] = np.nan
    assert parity.judge(known, known.reference, noise_limit=8)


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
    assert not parity.judge(evidence(), [change(answer) for answer in evidence().reference], noise_limit=8)


def test_swapped_classes_are_seen_as_flips():
    swapped = [{"logits": answer["logits"][:, ::-1].copy()} for answer in evidence().reference]
    judgement = parity.judge(evidence(), swapped, noise_limit=8)
    assert not judgement
    assert judgement.metrics["flip_rate"] > 0.3


def test_comparing_nothing_is_an_error():
    with pytest.raises(CandidateError, match="nothing can be decided"):
        parity.judge(evidence(), [], noise_limit=8)
    with pytest.raises(CandidateError, match="no rows"):
        parity.gather([], [], [], classifier=True)


def test_without_float64_the_noise_of_eager_itself_is_the_measure():
    reference = evidence().reference
    alone = {row: {"logits": reference[-1]["logits"][:1] * np.float32(1 + 1e-5)} for row in CASES[-1].rows[:1]}
    known = parity.gather(CASES, reference, None, classifier=True, alone=alone)
    assert known.rule == parity.MEASURED_NOISE
    assert known.noise["logits"] == pytest.approx(1e-5, rel=0.2)
    assert parity.judge(known, reference, noise_limit=8)
    assert not parity.judge(known, disturbed(1e-2), noise_limit=8)


def test_evidence_survives_disk(tmp_path):
    evidence().save(tmp_path)
    back = parity.Evidence.load(tmp_path)
    assert back.cases == CASES
    assert back.noise == evidence().noise
    assert parity.judge(back, evidence().reference, noise_limit=8)


def test_missing_evidence_says_what_to_run(tmp_path):
    with pytest.raises(CandidateError, match="dvc repro verify"):
        parity.Evidence.load(tmp_path)
