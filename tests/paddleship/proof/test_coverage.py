"""The headline says what was asked and compared, and never rounds a part up to the whole."""

import numpy as np
import pytest

from paddleship.proof import coverage
from paddleship.proof.cases.inputs import Case
from paddleship.reports.finding import KINDS, Finding
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.weights import weight_comparison
from paddleship.weights.weight_comparison import NotCompared, WeightComparison

IDS = TensorSpec("ids", "int64", ("batch", "length"), 0, 999)
WHOLE = WeightComparison(total=1000, compared=1000, exact=1000)


def case(*shape, rows=(), start=0):
    return Case("", "rows", {"ids": np.resize(np.arange(start, 1000), shape)}, rows)


def test_rows_sizes_ids_branches_and_weights_are_counted():
    cases = [case(1, 4, rows=(0,)), case(3, 256, rows=(0, 1, 2), start=2)]
    found = coverage.measure(cases, [IDS], {"paddle": WHOLE}, branch_counts={"sides": 4, "sides_exercised": 3})
    assert str(found) == "3 rows, batch 1 to 3, length 4 to 256, 77% of ids, 3 of 4 branches, 100% of weights"
    assert found.metrics == {
        "largest_batch": 3, "largest_length": 256, "ids_share": 0.77, "weights_compared_share": 1.0, "not_exercised": 0,
    }  # fmt: skip


def test_weights_that_were_not_compared_are_said_with_their_reason_and_share():
    part = WeightComparison(total=1000, compared=960, exact=900, not_compared=(NotCompared("conv.weight", 40, weight_comparison.MOVED),))
    found = coverage.measure([case(2, 500)], [IDS], {"paddle": WHOLE, "onnxruntime-int8": part})
    assert str(found).endswith("weights: 96% compared, 4% folded")


def test_what_was_not_exercised_is_named(monkeypatch):
    monkeypatch.setitem(KINDS, coverage.NOT_EXERCISED, "an output or input that the cases say nothing about")
    finding = Finding(coverage.NOT_EXERCISED, "warning", "words", layer="boxes")
    assert "not exercised: boxes" in str(coverage.measure([case(2, 500)], [IDS], {}, [finding]))


def test_inputs_without_a_declared_range_and_models_without_branches_are_left_out():
    spec = TensorSpec("ids", "int64", ("batch", 8))
    assert str(coverage.measure([case(2, 8, rows=(0, 1))], [spec], {})) == "2 rows, batch 2"


@pytest.mark.parametrize(
    ("share", "words"),
    [
        (1, "100%"),
        (0, "0%"),
        (0.999, "99.9%"),
        (0.99999, "99.999%"),
        (0.9999999, "over 99.99%"),
        (0.00001, "0.001%"),
        (1e-9, "under 0.01%"),
    ],
)
def test_a_part_is_not_rounded_to_the_whole(share, words):
    assert coverage._percent(share) == words
