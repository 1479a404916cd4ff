"""NaN and infinity: what eager has of them a candidate must have too, and an output of nothing else proves nothing."""

import numpy as np
import pytest

from paddleship.config.sections.verify import Verify
from paddleship.errors import ModelError
from paddleship.numerics import differences
from paddleship.proof import evidence, invariance, parity
from paddleship.proof.cases.inputs import Case

ROWS = 32
CASE = Case("rows 0 to 31", "rows", {"x": np.zeros((ROWS, 1), np.float32)}, tuple(range(ROWS)))
KEPT = np.random.default_rng(1).random((ROWS, 4)) > 0.4
TRUTH = np.random.default_rng(0).normal(size=(ROWS, 4))
EVERY = pytest.mark.parametrize("precision", ["float32", "bfloat16", "int8"])


def masked(left_out, dtype=np.float32):
    """Scores of which a mask leaves some out."""
    return np.where(KEPT, TRUTH, left_out).astype(dtype)


def known(reference, truth=None, **more):
    return evidence.gather([CASE], [{"scores": reference}], [{"scores": reference.astype(np.float64) if truth is None else truth}], **more)


def classifier(left_out):
    labels = masked(-np.inf).argmax(-1)
    return known(masked(left_out), masked(left_out, np.float64), task="classification", labels=labels)


def judge(found, scores, precision="float32"):
    # 32 rows show a flip rate of no less than 0.11 in their interval
    return parity.judge(found, [{"scores": scores}], limits=Verify(max_flip_rate=0.2, max_metric_drop=0.2), precision=precision)


@EVERY
def test_a_classifier_may_leave_out_what_eager_leaves_out(precision):
    assert judge(classifier(-np.inf), masked(-np.inf), precision)


@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan])
def test_the_same_nan_or_infinity_is_no_fault(value):
    assert judge(known(masked(value)), masked(value))


@EVERY
@pytest.mark.parametrize("instead", [1000.0, np.inf, np.nan, 0.0])
def test_another_value_where_eager_has_infinity_fails_in_any_precision(instead, precision):
    judgement = judge(classifier(-np.inf), masked(instead), precision)
    assert not judgement
    row, column = np.argwhere(~KEPT)[0]
    (finding,) = judgement.findings
    assert finding.kind == "not-finite"
    assert finding.message.startswith("rows 0 to 31: scores has")
    assert f"at [{row}, {column}], where eager has -inf" in finding.message


def test_a_number_where_eager_has_nan_fails():
    assert not judge(known(masked(np.nan)), masked(7.0))


@EVERY
def test_an_overflow_is_found_at_its_place(precision):
    scores = masked(-np.inf)
    scores[tuple(np.argwhere(KEPT)[3])] = np.inf
    judgement = judge(classifier(-np.inf), scores, precision)
    assert not judgement
    assert "1 NaN or infinite values where eager has none" in judgement.findings[0].message


def test_what_eager_says_counts_where_only_float32_overflows_and_its_size_is_no_measure_of_the_rest():
    found = known(masked(-np.inf), masked(np.finfo(np.float64).min, np.float64))
    assert judge(found, masked(-np.inf))
    assert not judge(found, masked(np.finfo(np.float32).min))
    assert not judge(found, masked(-np.inf) * np.float32(1.001))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_output_without_a_finite_number_is_an_error_though_others_have_some(value):
    answers = [{"scores": masked(-np.inf), "log": np.full((ROWS, 2), value, np.float32)}]
    with pytest.raises(ModelError, match=r"nothing but NaN and infinity in log.*nothing to compare"):
        evidence.gather([CASE], answers, None)


def test_answers_that_are_all_empty_are_an_error_and_one_empty_output_is_not():
    empty = np.zeros((ROWS, 0), np.float32)
    with pytest.raises(ModelError, match="no number at all"):
        evidence.gather([CASE], [{"boxes": empty}], None)
    assert evidence.gather([CASE], [{"boxes": empty, "scores": masked(0)}], None)


def test_the_same_infinity_told_twice_is_no_change_and_another_one_is():
    found = known(masked(-np.inf))
    once, close = [{"scores": masked(-np.inf)}], [{"scores": masked(-np.inf) * np.float32(1 + 2**-23)}]
    assert invariance.change(found, [0], once, close) < 8
    assert invariance.change(found, [0], once, [{"scores": masked(np.inf)}]) == np.inf


def test_without_float64_infinity_in_one_batch_only_does_not_count_as_noise():
    alone = Case("row 0 alone", "rows", {"x": np.zeros((1, 1), np.float32)}, (0,))
    first = masked(-np.inf)[:1].copy()
    first[0, int(KEPT[0].argmax())] = np.inf
    found = evidence.gather([CASE, alone], [{"scores": masked(-np.inf)}, {"scores": first}], None)
    assert found.noise["rows"]["scores"].largest < 1e-4


def test_differences_tell_of_strange_values():
    assert differences.differences(masked(-np.inf), masked(-np.inf)).max_abs_diff == 0
    assert differences.differences(masked(3.0), masked(-np.inf)).max_abs_diff == np.inf


@pytest.mark.parametrize("mask", [-1e5, -1e9, -1e30, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize("added", [False, True], ids=["in place of scores", "added to scores"])
def test_the_large_number_of_a_mask_is_no_measure_of_the_scores(mask, added):
    def scores(kept, dtype=np.float32):
        return np.where(KEPT, kept, mask + TRUTH * added).astype(dtype)

    found = known(scores(TRUTH), scores(TRUTH, np.float64))
    assert judge(found, scores(TRUTH))
    assert judge(found, scores(TRUTH * (1 + 1e-7)))
    assert not judge(found, scores(TRUTH * (1 + 1e-5)))
    assert not judge(found, np.where(KEPT, scores(TRUTH), np.float32(mask * 0.99)))
    assert not judge(found, np.where(KEPT, scores(TRUTH), -scores(TRUTH)))


def test_large_answers_of_all_sizes_are_no_mask():
    powers = np.geomspace(1e-3, 1e6, ROWS * 4).reshape(ROWS, 4)
    found = known(powers.astype(np.float32), powers)
    assert found.noise["rows"]["scores"].scale == 1e6
