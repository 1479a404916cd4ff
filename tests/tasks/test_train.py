import json
import sys

import numpy as np
import pytest

from paddleship.config import loading
from paddleship.config.sections.train import Train
from paddleship.model import building, fitting, sources
from paddleship.model.training import History
from paddleship.model.weight_source import Obtained, WeightSource
from paddleship.reports import row_scores
from tasks.prepare import prepare
from tasks.train import check_round_trip, train
from tests import small_linear

RIGHT = {"score": np.array([[1.0, -2.0]], np.float32)}


@pytest.mark.parametrize(
    ("restored", "passed"),
    [
        ({"score": np.array([[1.0, -2.0]], np.float32)}, True),
        ({"score": np.array([[1.0, np.nan]], np.float32)}, False),
        ({"score": np.array([[1.0, -2.001]], np.float32)}, False),
        ({"score": np.array([1.0, -2.0], np.float32)}, False),
        ({}, False),
    ],
)
def test_a_checkpoint_that_answers_differently_is_refused(restored, passed):
    check = check_round_trip(RIGHT, restored)
    assert check.name == "round_trip_max_rel_diff"
    assert bool(check.passed) == passed


def test_a_missed_score_advises_patience_if_training_stopped_early_and_epochs_if_not():
    epochs, settings = [{"validation_score": 0.7, "validation_loss": 1.0}] * 3, Train(patience=2, min_score=0.75)
    assert fitting.advice(History(epochs, best=0), settings).startswith(
        "no lower validation loss for 2 epochs ended the training: raise train.patience"
    )
    assert fitting.advice(History(epochs, best=1), settings).startswith("raise train.epochs")


class Known(WeightSource):
    """A source that trains nothing: it sets the weights that are right."""

    def obtain(self, setup):
        setup.layer.set_state_dict({"weight": np.array([[1.0], [-1.0]], np.float32), "bias": np.zeros(1, np.float32)})
        return Obtained([], origin="with the weights of a file", metrics={"tensors": 2})


def test_weights_of_a_source_that_trains_nothing_are_scored_and_saved_without_a_history(tmp_path, monkeypatch):
    small_linear.write(tmp_path, "their_linear")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "Fit", Known)
    values = loading.parse(small_linear.values("their_linear", min_score=0.9))
    prepare(values)
    report = train(values)
    sys.modules.pop("their_linear", None)
    assert report.verdict, report.verdict.failures
    assert report.headline.startswith("test r2 1.0000 (mean -0.0")
    assert report.headline.endswith(") with the weights of a file")
    assert report.metrics["linear_gain_low"] > 0
    assert (report.metrics["validation_r2"], report.metrics["tensors"]) == (pytest.approx(1), 2)
    assert "epochs" not in report.metrics
    assert report.facts["history"] == []
    assert row_scores.unpack(report.facts["row_scores"]).sum() == pytest.approx(1, abs=1e-4)
    assert json.loads((tmp_path / "reports/train/classes/classes.json").read_text()) == {}
    assert json.loads((tmp_path / "reports/train/history.json").read_text()) == []
    assert json.loads((tmp_path / "models/checkpoint" / building.FACTS).read_text())["scores"]["test"] == pytest.approx(1)
