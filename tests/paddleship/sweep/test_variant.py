"""What a variant measured, from the reports of its run; and its file, which a restart reads."""

import math

import pytest

from paddleship import errors
from paddleship.errors import BadInput, Cancelled, GateFailed, PaddleshipError, Unavailable
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict
from paddleship.statistics.estimates import Interval
from paddleship.sweep import journal
from paddleship.sweep.journal import Journal
from paddleship.sweep.variant import DONE, Ended, Figures, SizeOf, Variant
from tests.paddleship.sweep.helpers import done, failed, figures


def report(stage, **more):
    return Report(stage=stage, headline="", verdict=Verdict(checks=[Check.at_least("x", 1, 1)]), **more)


def benchmark(**facts):
    row = {"p50_ms": 2.0, "speedup": 4.0, "speedup_low": 3.9, "speedup_high": 4.1, "noise_ratio": 0.5, "file_bytes": 10}
    known = {"winner": "paddle", "measured_on": "here", "benchmark_valid": True, "effect": 0.05}
    return report("benchmark", candidates={"paddle": row}, facts=known | facts)


PREPARE = report("prepare", metrics={"validation_rows": 1000, "test_rows": 10}, facts={"data_sha256": "d"})
TRAIN = report("train", metrics={"validation_accuracy": 0.9, "test_accuracy": 0.7})


def test_the_figures_of_a_run_come_from_its_reports():
    found = Figures.of([PREPARE, TRAIN, benchmark()])
    assert (found.winner, found.score_name, found.data_sha256, found.measured_on) == ("paddle", "validation_accuracy", "d", "here")
    assert (found.size_bytes, found.size_of) == (10, SizeOf.FILES)
    assert found.score.low == pytest.approx(0.8797, abs=1e-3)
    assert found.score.high == pytest.approx(0.9179, abs=1e-3)
    assert tuple(found.p50_ms) == pytest.approx((2.0, 2 * 3.9 / 4, 2 / 3.9 * 4))


def test_what_each_row_adds_to_the_score_is_read_from_the_report_of_train():
    train = report("train", metrics=TRAIN.metrics, facts={"row_scores": "packed"})
    assert Figures.of([PREPARE, train, benchmark()]).row_scores == "packed"


def test_a_score_that_is_no_number_can_be_read_back():
    variant = done(1)
    nan = variant.model_copy(update={"ended": variant.ended.model_copy(update={"figures": figures(score=float("nan"))})})
    assert math.isnan(Variant.model_validate_json(nan.model_dump_json()).figures.score.value)


def test_a_packed_variant_is_as_large_as_its_image():
    found = Figures.of([PREPARE, TRAIN, benchmark(), report("package", metrics={"image_bytes": 300})])
    assert (found.size_bytes, found.size_of) == (300, SizeOf.IMAGE)


@pytest.mark.parametrize(
    ("facts", "reach"),
    [
        ({"effect": 0.44}, 1.2),
        ({"aa_ratio_low": 0.8, "aa_ratio_high": 1.1}, 1.25),
        ({"aa_ratio_low": 0.9, "aa_ratio_high": 1.5}, 1.5),
    ],
)
def test_the_interval_of_a_latency_is_as_wide_as_what_the_machine_shows_without_a_difference(facts, reach):
    found = Figures.of([benchmark(**facts)])
    assert tuple(found.p50_ms) == pytest.approx((2.0, 2 / reach, 2 * reach))


def test_the_score_of_a_regression_has_no_interval_and_a_missing_one_is_none():
    found = Figures.of([PREPARE, report("train", metrics={"validation_r2": 0.5}), benchmark()])
    assert (found.score_name, found.score, found.score_has_interval) == ("validation_r2", Interval(0.5, 0.5, 0.5), False)
    assert Figures.of([benchmark()]).score is None


def test_a_run_that_measured_nothing_has_no_figures():
    assert Figures.of([PREPARE, TRAIN]) is None
    assert Figures.of([report("benchmark", facts={"took_no_part": {}})]) is None


@pytest.mark.parametrize(
    ("outcome", "final"),
    [
        (DONE, True),
        ("GateFailed", True),
        ("BadInput", True),
        ("Defect", True),
        ("Killed", False),
        ("Cancelled", False),
        ("Unavailable", False),
    ],
)
def test_only_what_would_end_the_same_way_again_is_kept(outcome, final):
    assert Ended(outcome=outcome).is_final is final


def test_an_outcome_has_the_error_with_its_exit_code():
    assert isinstance(errors.of_outcome("GateFailed")("x"), GateFailed)
    assert isinstance(errors.of_outcome("BadInput")("x"), BadInput)
    assert isinstance(errors.of_outcome("Unavailable")("x"), Unavailable)
    assert isinstance(errors.of_outcome("Cancelled")("x"), Cancelled)
    assert type(errors.of_outcome("Killed")("x")) is PaddleshipError


def test_variants_come_back_from_disk_as_they_were(tmp_path):
    written = [done(1), failed(2), Variant(number=10, values={"a": [1, None]}, flow_run="f")]
    kept = Journal(tmp_path)
    for one in reversed(written):
        kept.write(one)
    assert Journal(tmp_path).variants() == written


def test_one_process_at_a_time_has_a_sweep(tmp_path):
    with Journal(tmp_path).lock(), pytest.raises(Unavailable, match="is running in another process"), Journal(tmp_path).lock():
        pass
    with Journal(tmp_path).lock():
        pass


def test_a_sweep_is_the_same_while_its_variants_are(reviews_params):
    def name(commit="c", version="v", **sweep):
        return journal.name(reviews_params({"sweep": {"space": {"train.epochs": [1, 2]}, **sweep}}), commit, version)

    assert name() == name(trials=3, parallel=7, choose="size", min_score=0.5)
    assert (
        len(
            {
                name(),
                name("other"),
                name(version="of other data"),
                name(until="accept"),
                name(space={"train.epochs": [1]}),
                name(method="random"),
            }
        )
        == 6
    )


def test_the_reason_of_an_end_has_no_user_and_no_password():
    assert Ended(outcome="Defect", reason="http://user:canary@mlflow:5000 is away").reason == "http://mlflow:5000 is away"
