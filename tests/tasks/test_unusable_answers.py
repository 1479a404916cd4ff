"""A model whose answers on real rows are constant, not finite or saturated is refused by verify, although every candidate agrees."""

import json

import numpy as np
import pytest
import yaml

from paddleship.data import dataset
from tests.tasks.conftest import edit_params

SOURCE = """
import json

import paddle
from paddle import nn
from paddle.nn import functional as F


class Head(nn.Layer):
    def __init__(self, kind, weights, bias):
        super().__init__()
        self.linear, self.kind, self.bias = nn.Linear(2, 1), kind, bias
        self.register_buffer("direction", paddle.to_tensor(weights))
        if kind == "zero":
            self.linear.weight.set_value(paddle.zeros([2, 1]))
            self.linear.weight.stop_gradient = True

    def forward(self, x):
        y = self.linear(x / x.abs().sum(1, keepdim=True) if self.kind == "zero" else x)  # NaN for the edge case of zeros
        if self.training or self.kind in ("zero", "right"):
            return y
        beyond = (x * self.direction).sum(1, keepdim=True) - self.bias  # above 100 for a test row, below 0 for those of training
        if self.kind == "softplus":
            return y + paddle.log(1 + paddle.exp(beyond))
        if self.kind == "float16":
            return y + (F.relu(beyond) * 1e3).astype("float16").astype("float32")
        if self.kind == "edge":
            return paddle.where(x.abs().sum(1, keepdim=True) < 1e-6, y, paddle.ones_like(y))
        return F.sigmoid(x[:, :1] * 1e4 + y)


def build(kind, weights, bias):
    return Head(kind, weights, bias)


def read(raw):
    yield from map(json.loads, raw.read_text().splitlines())
"""


def separating(prepared):
    """Weights and bias of a plane beyond which there are test rows alone: the loss of the training stays finite."""
    parts = {part: np.array(dataset.read(prepared, part).columns["x"]) for part in ("train", "validation", "test")}
    best = (0.0, np.zeros(2), 0.0)
    for angle in np.linspace(0, 2 * np.pi, 256):
        direction = np.array([np.cos(angle), np.sin(angle)])
        known = max((parts["train"] @ direction).max(), (parts["validation"] @ direction).max())
        best = max(best, ((parts["test"][:16] @ direction).max() - known, direction, known), key=lambda one: one[0])
    margin, direction, known = best
    assert margin > 0, "no test row lies outside: draw other rows"
    return {"weights": (direction * 150 / margin).tolist(), "bias": float(known * 150 / margin)}


@pytest.fixture(scope="module")
def optimized(checkout_of, tmp_path_factory, stage, base_params):
    """Make a checkout after optimize whose model answers in a given way."""

    def make(kind):
        checkout, folder = checkout_of(f"answers-{kind}"), tmp_path_factory.mktemp(kind)
        (folder / "their_heads.py").write_text(SOURCE)
        random = np.random.default_rng(0)
        with (folder / "rows.jsonl").open("w") as rows:
            for x in random.uniform(-3, 3, (200, 2)).round(4).tolist():
                rows.write(json.dumps({"x": x, "y": [x[0] - x[1]]}) + "\n")
        values = base_params | {
            "name": "heads",
            "code": {"root": str(folder), "watch": str(folder)},
            "preprocess": {"kind": "tensors"},
            "data": {
                **{"fetch": {}, "raw": str(folder / "rows.jsonl"), "reader": "their_heads:read", "inputs": ["x"], "label": "y"},
                **{"task": "regression", "classes": []},
            },
            "model": {
                "factory": "their_heads:build",
                "kwargs": {"kind": kind, "weights": [0.0, 0.0], "bias": 0.0},
                "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 2]}],
            },
            "train": {"epochs": 1, "batch_size": 16, "learning_rate": 0.05},
            "optimize": {"candidates": ["paddle"], "tune_seconds": 0},
            "verify": {"samples": 16, "max_batch": 8},
        }
        (checkout / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
        done = stage(checkout, "prepare")
        assert done.returncode == 0, done.stderr
        edit_params(checkout, model={"kwargs": {"kind": kind, **separating(checkout / "data/prepared")}})
        for name in ("train", "export", "optimize"):
            done = stage(checkout, name)
            assert done.returncode == 0, done.stderr
        return checkout

    return make


@pytest.mark.parametrize(
    ("kind", "finding", "texts"),
    [
        ("zero", "not-exercised", ["output output was the same for all inputs"]),
        ("softplus", "not-finite", ["% of the numbers of output output are NaN or infinite", "batches of real rows"]),
        pytest.param(
            *("float16", "not-finite", ["% of the numbers of output output are NaN or infinite", "batches of real rows"]),
            marks=pytest.mark.long,  # infinite numbers of another operator
        ),
        ("edge", "not-exercised", ["output output was the same for all inputs"]),
        ("saturated", "not-exercised", ["output output was 0 or 1 in ", "% of its numbers"]),
    ],
)
def test_answers_that_prove_nothing_are_refused_by_name_and_share(optimized, stage, kind, finding, texts):
    checkout = optimized(kind)
    done = stage(checkout, "verify")
    assert done.returncode == 3, done.stdout
    report = json.loads((checkout / "reports/verify.json").read_text())
    errors = [item["message"] for item in report["findings"] if (item["kind"], item["severity"]) == (finding, "error")]
    assert any(all(text in message for text in texts) for message in errors), report["findings"]
    assert json.loads((checkout / "models/parity/passed.json").read_text()) == {}


def test_the_same_model_with_ordinary_answers_is_proven(optimized, stage):
    checkout = optimized("right")
    done = stage(checkout, "verify")
    assert done.returncode == 0, done.stderr
