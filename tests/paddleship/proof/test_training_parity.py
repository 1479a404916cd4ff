"""Training as `to_static` against eager: equal where it is, and each way to differ is named."""

import sys

import numpy as np
import pytest

from paddleship.config.sections.model import Model
from paddleship.config.sections.train import Train
from paddleship.config.sections.verify import Verify
from paddleship.model import building
from paddleship.model.eager import SourceModel
from paddleship.proof import training_parity

SOURCE = """
import math

import paddle
from paddle import nn
from paddle.nn import functional as F

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1D(8)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.dropout(F.relu(self.norm(self.hidden(x)))))

class Cut(Net):
    def forward(self, x):
        y = F.relu(self.norm(self.hidden(x)))
        if not paddle.in_dynamic_mode():
            y = y.detach()
        return self.head(y)

class Unconvertible(Net):
    def forward(self, x):
        return super().forward(x) * math.tanh(float(x.mean()))

class Random(Net):
    def forward(self, x):
        return super().forward(x + paddle.randn(x.shape))
"""


@pytest.fixture(autouse=True)
def their_package(tmp_path, monkeypatch):
    (tmp_path / "their_training.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("their_training", None)


def compare(name, tmp_path):
    settings = Model(factory=f"their_training:{name}", inputs=[{"name": "x", "dtype": "float32", "shape": ["batch", 6]}])
    building.save(building.build(settings), tmp_path / "checkpoint", {})
    random = np.random.default_rng(0)
    batches = [({"x": random.normal(size=(16, 6)).astype(np.float32)}, random.integers(0, 3, 16)) for _ in range(4)]
    source_model = SourceModel(settings, tmp_path / "checkpoint")
    return training_parity.compare(source_model, batches, Train(), task="classification", settings=Verify(timeout_s=60))


def failed(parity):
    return {check.name for check in parity.checks if not check.passed}


def test_an_honest_program_trains_as_eager_does(tmp_path):
    parity = compare("Net", tmp_path)
    assert parity, parity.checks
    assert len(parity.losses["eager"]) == len(parity.losses["to_static"]) == 4
    assert {"hidden.weight", "head.bias", "norm._mean (kept)"} <= set(parity.ratios)
    assert len(parity.draw(8, tmp_path)) == 2


def test_a_gradient_that_is_lost_is_named_by_its_parameter(tmp_path):
    parity = compare("Cut", tmp_path)
    assert failed(parity) >= {"gradient_ratio"}
    assert {finding.layer for finding in parity.findings} >= {"hidden.weight", "norm.bias"}
    assert "head.weight" not in {finding.layer for finding in parity.findings}


def test_a_model_that_cannot_train_as_a_program_says_why(tmp_path):
    parity = compare("Unconvertible", tmp_path)
    assert failed(parity) == {"training"}
    assert "their_training.py" in str(parity.checks[0])


def test_randomness_that_cannot_be_switched_off_is_not_compared(tmp_path):
    parity = compare("Random", tmp_path)
    assert failed(parity) == {"training_random"}
    assert parity.findings[0].kind == "random-forward"


def trace(losses, gradient):
    return training_parity.Trace(losses, {"weight": np.array(gradient)})


RIGHT, NEAR = trace([1.0, 0.5], [1.0, 2.0]), trace([1.00001, 0.50001], [1.00001, 2.0])


@pytest.mark.parametrize(
    ("static", "reference", "names"),
    [
        (NEAR, NEAR, set()),
        (trace([1.0, float("nan")], [1.0, 2.0]), NEAR, {"training_loss_ratio"}),
        (trace([1.1, 0.5], [1.0, 2.0]), NEAR, {"training_loss_ratio"}),
        (trace([1.0, 0.5], [1.0, float("nan")]), NEAR, {"gradient_ratio"}),
        (trace([1.0, 0.5], [1.0, float("nan")]), trace([1.0, 0.5], [1.0, float("nan")]), {"gradient_ratio"}),
        (NEAR, trace([1.0, float("nan")], [1.0, 2.0]), {"training_eager_loss"}),
    ],
)
def test_nan_in_a_loss_or_gradient_is_never_taken_for_agreement(static, reference, names):
    parity = training_parity._judge(RIGHT, reference, static, reference.losses[0], Verify())
    assert failed(parity) == names
