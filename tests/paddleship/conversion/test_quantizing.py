"""int8 candidates: made on rows of the training part, judged by decisions, and a row with its reason where there is nothing to win."""

import re

import numpy as np
import pytest

from paddleship.config.catalogue import kinds
from paddleship.conversion import calibration
from tests.paddleship.conversion.helpers import batch, judged

INT8 = [name for name, kind in kinds().items() if kind.precision == "int8" and kind.packages]


@pytest.mark.parametrize("name", INT8)
def test_a_model_without_anything_to_quantise_is_a_row(workshop_of, tmp_path, name):
    outcome = workshop_of("Squares").make(name, tmp_path / name)
    assert not outcome.made
    assert "nothing in this model can be quantised" in outcome.reason


@pytest.mark.parametrize("name", ["onnxruntime-int8-dynamic", "onnxruntime-int8"])
def test_a_model_whose_products_all_lie_in_a_loop_says_where_they_are(workshop_of, tmp_path, name):
    outcome = workshop_of("Rounds").make(name, tmp_path / name)
    assert not outcome.made
    assert re.search("its (MatMul|Gemm) lie in the body of an ONNX Loop or If", outcome.reason)


def test_int8_without_rows_to_calibrate_on_is_a_row(workshop_of, tmp_path):
    outcome = workshop_of("Digits", batches=[]).make("onnxruntime-int8", tmp_path / "onnxruntime-int8")
    assert "no row of the training part" in outcome.reason


@pytest.mark.parametrize("name", ["onnxruntime-int8", "openvino-int8"])
@pytest.mark.parametrize(("scale", "proven"), [(1.0, True), (0.01, False)], ids=["calibrated on its rows", "calibrated on others"])
def test_int8_is_judged_by_its_decisions_and_refused_when_badly_calibrated(source_model_of, workshop_of, tmp_path, name, scale, proven):
    source_model = source_model_of("Digits")
    outcome = workshop_of("Digits", batches=[batch(4, seed, scale) for seed in range(16)]).make(name, tmp_path / name)
    assert outcome.made, outcome.reason
    judgement = judged(source_model, tmp_path / name)
    assert bool(judgement) is proven
    assert {check.name for check in judgement.checks} == {"flip_rate_high", "metric_drop_high", "decided_slope", "decided_offset"}
    if not proven:
        assert judgement.metrics["flip_rate"] > 0.15


def test_calibration_takes_only_rows_that_a_fixed_program_can_hold(source_model_of):
    specs = [item.spec() for item in source_model_of("Pair").model.inputs]
    given = [{"x": np.ones((2, 16), np.float32), "ids": np.ones((2, length), np.int64)} for length in (3, 8, 9)]
    assert calibration.fitting(given, specs, {}) == given
    found = calibration.fitting(given, specs, {"batch": 4, "length": 8})
    assert [batch["ids"].shape for batch in found] == [(4, 8)] * 4
    assert found[0]["ids"][0].tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
