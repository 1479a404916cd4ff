"""The params of examples that are laid over params.yaml, and the table that one of them reads without code."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from sklearn.datasets import load_wine

from examples.wine import fetch
from paddleship.config import params_overlay
from paddleship.data import dataset
from paddleship.data.row_validation import RowValidator

REPOSITORY = Path(__file__).parents[3]
OVERLAYS = sorted(str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "examples").glob("*/*.yaml"))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_params_of_an_example_are_valid(overlay):
    assert params_overlay.load(REPOSITORY, overlay).name == yaml.safe_load((REPOSITORY / overlay).read_text(encoding="utf-8"))["name"]


def test_the_wines_are_read_labelled_and_standardised_by_their_training_part(tmp_path):
    fetch.fetch(tmp_path / "wine")
    params = params_overlay.load(REPOSITORY, "examples/wine/params.yaml")
    data = params.data.model_copy(update={"raw": str(tmp_path / "wine")})
    rows = dataset.read_raw(data)
    assert np.array([row["x"] for row in rows]).tolist() == load_wine().data.tolist()
    splits, counts = dataset.clean(rows, data, RowValidator.of(params))
    assert counts.kept == 178
    assert {int(label) for part in splits.values() for label in part.labels} == {0, 1, 2}
    (tmp_path / "prepared").mkdir()
    dataset.write(splits, dataset.describe(splits, params), tmp_path / "prepared")
    preprocess, config, _ = dataset.read_preprocess(tmp_path / "prepared")
    training = np.array(splits["train"].columns["x"], float)
    np.testing.assert_allclose(config["inputs"]["x"]["mean"], training.mean(axis=0))
    encoded = np.stack([row["x"] for row in dataset.encode(preprocess, splits["train"])])
    np.testing.assert_allclose(encoded.std(axis=0), 1, rtol=1e-5)
