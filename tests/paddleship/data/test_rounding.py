"""Values that become equal in the model's dtype are counted, named with their spacing, and stop prepare when most of them are lost."""

import numpy as np
import pytest

from paddleship.config.sections.data import Data
from paddleship.data import dataset
from paddleship.data.row_validation import RowValidator
from paddleship.errors import DataError
from paddleship.shipped.computing.preprocess import build
from paddleship.shipped.computing.spec import TensorSpec

START_MS = 1_793_491_200_000  # 2026-11-01


def counted(values, dtype="float32", shape=("batch", 2), labels=None, **changes):
    settings = {"raw": "raw", "reader": "m:read", "inputs": ["x"], "label": "y", "task": "classification", "classes": ["a", "b"]}
    data = Data(**settings | {"validation": 0.2, "test": 0.2} | changes)
    rows = [{"x": value, "y": label} for value, label in zip(values, labels or [index % 2 for index in range(len(values))], strict=True)]
    return dataset.clean(rows, data, RowValidator(data, build({}, [TensorSpec("x", dtype, shape)])))[1]


@pytest.mark.parametrize("kind", [float, int, str, np.int64], ids=lambda kind: kind.__name__)
def test_times_in_ms_as_float32_stop_with_column_value_and_spacing(kind):
    values = [[kind(START_MS + 10_000 * index), kind(index % 2)] for index in range(3000)]
    with pytest.raises(DataError) as caught:
        counted(values)
    assert "of 3,000 different rows become equal to another in the model's dtype; column 'x' (position 0) has 3,000 different" in str(
        caught.value
    )
    assert "at 1.794e+12, its values are 131,072 apart: declare float64" in str(caught.value)
    assert counted(values, "float64").rounding.merged == 0


def test_ids_that_share_a_row_with_other_values_stop_although_no_row_is_lost():
    with pytest.raises(DataError, match=r"^column 'x' \(position 0\) has 3,000 different values, of which float32 keeps 4\d: at 1e\+09"):
        counted([[10**9 + index, index / 7] for index in range(3000)])


def test_single_values_and_nested_lists_are_counted_too():
    with pytest.raises(DataError, match=r"^2,9.. of 3,000 different rows"):
        counted([-(10**9) - index for index in range(3000)], shape=("batch",))
    with pytest.raises(DataError, match=r"^2,9.. of 3,000 different rows"):
        counted([[[10**9 + index]] for index in range(3000)], shape=("batch", 1, 1))


def test_rows_with_two_labels_only_after_the_cast_are_counted():
    with pytest.raises(DataError, match="different rows become equal"):
        counted([START_MS + 10_000 * index for index in range(3000)], shape=("batch",))


def test_a_small_loss_is_a_warning_and_a_smaller_one_a_note():
    counts = counted([[2**24 + index if index < 300 else index] for index in range(3000)], shape=("batch", 1))
    assert counts.rounding.merged > 100
    assert [(one.kind, one.severity) for one in counts.rounding.findings(0.02)] == [("rounded-values", "warning")]
    assert [one.severity for one in counts.rounding.findings(0.2)] == ["note"]


def test_numbers_whose_rounding_loses_nothing_raise_no_alarm():
    random = np.random.default_rng(0)
    values = np.stack([random.normal(size=5000), 300 + 5 * random.random(5000)], 1)
    assert counted(values.tolist()).rounding.findings(0.02) == []
    assert counted([[index, 255 - index % 256] for index in range(3000)]).rounding.findings(0.02) == []


def regression(labels):
    values = [[float(index), float(index % 7)] for index in range(len(labels))]
    return counted(values, "float64", labels=labels, task="regression", classes=[]).rounding


@pytest.mark.parametrize(
    "labels",
    [
        [1.7e9 + index / 8 for index in range(300)],
        [1_700_000_000_000 + index for index in range(300)],
        [str(1.7e9 + index / 8) for index in range(300)],
    ],
    ids=["floats", "whole numbers", "texts"],
)
def test_labels_that_their_dtype_cannot_tell_apart_stop(labels):
    with pytest.raises(DataError, match=r"column 'y' has 300 different values, of which float32 keeps .*labels are stored in"):
        regression(labels)


def test_labels_that_lose_their_last_digits_are_a_warning_and_ordinary_ones_nothing():
    odd = regression([16_777_217 + 2 * index for index in range(300)])
    (finding,) = odd.findings(0.02)
    assert finding.severity == "warning"
    assert "column 'y' has 300 different values" in finding.message
    assert regression([index / 7 for index in range(300)]).findings(0.02) == []
