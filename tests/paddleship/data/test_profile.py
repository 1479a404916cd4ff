"""The features of each kind of input, and the profile of the training rows."""

import numpy as np
import pytest

from paddleship.data import profile
from paddleship.errors import DataError
from paddleship.shipped.computing.features import MOST_FEATURES, Bins, Features
from paddleship.shipped.computing.spec import TensorSpec

TENSORS = {"kind": "tensors"}


def values(spec, row, preprocess=TENSORS):
    features = Features([spec], preprocess)
    return dict(zip(features.names, features.of({spec.name: np.asarray(row, spec.dtype)}), strict=True))


def test_a_table_has_a_feature_for_each_column():
    assert values(TensorSpec("x", "float32", ("batch", 2)), [3, 4]) == {"x[0]": 3, "x[1]": 4}
    assert values(TensorSpec("age", "int64", ("batch",)), 7) == {"age": 7}


def test_ids_have_a_length_without_padding_and_one_value_that_the_row_chooses():
    spec = TensorSpec("ids", "int64", ("batch", "length"))
    found = values(spec, [5, 7, 9, 0, 0])
    assert found == values(spec, [5, 7, 9, 0]) | {"ids.value": found["ids.value"]}
    assert (found["ids.length"], found["ids.mean"]) == (3, 7)
    assert found["ids.value"] in (5, 7, 9)
    assert values(spec, [0, 0])["ids.length"] == 0


def test_an_image_has_brightness_contrast_and_channels():
    image = np.stack([np.full((8, 8), level) for level in (0.0, 1.0, 2.0)])
    found = values(TensorSpec("image", "float32", ("batch", 3, "height", "width"), pad=-1), image)
    assert found["image.mean"] == 1
    assert [found[f"image.mean[{channel}]"] for channel in range(3)] == [0, 1, 2]
    assert (found["image.height"], found["image.width"]) == (8, 8)
    assert found["image.std"] == pytest.approx(np.std([0, 1, 2]))


def test_text_has_lengths_and_shares_and_no_text():
    spec = TensorSpec("ids", "int64", ("batch", "length"))
    found = values(spec, [1, 2, 5, 5], {"kind": "characters", "column": "text", "input": "ids"})
    assert found == {"text.length": 4, "text.unknown_share": 0.25, "text.rarity": pytest.approx(4 / 3)}


def test_what_is_too_much_is_named():
    specs = [TensorSpec(f"x{index}", "float32", ("batch", 100)) for index in range(2)]
    features = Features(specs, TENSORS)
    assert (len(features.names), len(features.left_out)) == (MOST_FEATURES, 200 - MOST_FEATURES)
    assert features.left_out[-1] == "x1[99]"


@pytest.mark.parametrize("value", [1e300, -1e300, np.inf])
def test_huge_values_stay_finite(value):
    spec = TensorSpec("x", "float64", ("batch", 300))
    assert all(np.isfinite(list(values(spec, np.full(300, value)).values())))


def test_bins_put_every_value_somewhere_and_what_training_never_had_apart():
    bins = Bins("x", low=0, high=10, cuts=(2, 5))
    assert [bins.index(value) for value in (-1, 0, 2, 2.1, 5, 6, 10, 11)] == [0, 1, 1, 2, 2, 3, 3, 4]
    assert (len(bins), bins.unseen) == (5, (0, 4))
    few = Bins("k", values=(0, 3))
    assert [few.index(value) for value in (0, 3, 1, 9)] == [0, 1, 2, 2]
    assert Bins.from_dict(bins.to_dict()) == bins


def test_a_profile_is_the_same_for_the_same_rows_in_any_order(tmp_path):
    features = Features([TensorSpec("x", "float32", ("batch", 1)), TensorSpec("k", "int64", ("batch",))], TENSORS)
    random = np.random.default_rng(0)
    rows = [{"x": random.normal(size=1).astype(np.float32), "k": np.int64(random.integers(3))} for _ in range(500)]
    made = profile.make(features, rows, {})
    assert made == profile.make(features, rows[::-1], {})
    x, k = made["features"]
    assert sum(x["counts"]) == sum(k["counts"]) == made["rows"] == 500
    assert (x["counts"][0], x["counts"][-1], k["counts"][-1]) == (0, 0, 0)
    assert min(x["counts"][1:-1]) > 40
    assert k["values"] == [0, 1, 2]
    profile.write(made, tmp_path)
    assert profile.read(tmp_path) == made


def test_a_profile_that_is_missing_names_the_stage(tmp_path):
    with pytest.raises(DataError, match="paddleship run --again prepare"):
        profile.read(tmp_path)
