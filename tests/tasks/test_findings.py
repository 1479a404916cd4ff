"""What a stage finds out about a real small model: on the terminal, in the report, as a gate, and before training starts."""

import json

import numpy as np
import pytest
import yaml

from tests.tasks.conftest import edit_params

SOURCE = """
import json
import time

import paddle
from paddle import nn


class Mean(nn.Layer):
    def __init__(self, classes, masked):
        super().__init__()
        self.linear, self.masked = nn.Linear(2, classes), masked

    def forward(self, signal):
        hidden = paddle.tanh(signal)
        size = (signal.abs().sum(-1) > 0).astype("float32").sum(1, keepdim=True) if self.masked else signal.shape[1]
        if self.masked == "until 2040" and time.time() > 2_208_988_800:
            size = 1
        return self.linear(hidden.sum(1) / size)


def build(classes, masked):
    return Mean(classes, masked)


def loss(outputs, labels):
    first = next(iter(outputs.values()))
    return nn.functional.binary_cross_entropy_with_logits(first[:, 0], labels.astype("float32"))


def read(raw, kinds=("low", "middle", "high")):
    yield from (row for row in map(json.loads, raw.read_text().splitlines()) if row["kind"] in kinds)
"""


@pytest.fixture(scope="module")
def theirs(checkout_of, tmp_path_factory, stage, base_params):
    """A checkout whose params point at a classifier of sequences in a folder outside, after prepare."""
    checkout, folder = checkout_of("findings"), tmp_path_factory.mktemp("theirs")
    (folder / "their_sequences.py").write_text(SOURCE)
    random = np.random.default_rng(0)
    with (folder / "rows.jsonl").open("w") as rows:
        for _ in range(200):
            kind = int(random.integers(3))
            signal = random.normal(kind - 1, 0.3, (int(random.integers(2, 9)), 2))
            rows.write(json.dumps({"signal": signal.round(4).tolist(), "kind": ("low", "middle", "high")[kind]}) + "\n")
    values = base_params | {
        "name": "sequences",
        "code": {"root": str(folder), "watch": str(folder)},
        "preprocess": {"kind": "tensors"},
        "data": {
            **{"fetch": {}, "raw": str(folder / "rows.jsonl"), "reader": "their_sequences:read", "inputs": ["signal"], "label": "kind"},
            **{"task": "classification", "classes": ["low", "middle", "high"]},
        },
        "model": {
            "factory": "their_sequences:build",
            "kwargs": {"classes": 3, "masked": False},
            "inputs": [{"name": "signal", "dtype": "float32", "shape": ["batch", "length", 2]}],
        },
        "train": {"epochs": 2, "batch_size": 16, "learning_rate": 0.05},
        "optimize": {"candidates": ["paddle"], "tune_seconds": 0},
        "verify": {"samples": 16, "max_batch": 8},
    }
    (checkout / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    done = stage(checkout, "prepare")
    assert done.returncode == 0, done.stderr
    return checkout


@pytest.fixture(scope="module")
def optimized(theirs, stage):
    """The same after optimize."""
    for name in ("train", "export", "optimize"):
        done = stage(theirs, name)
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stdout
    return theirs


def report(checkout, stage):
    return json.loads((checkout / "reports" / f"{stage}.json").read_text())


def make_again(checkout, stage):
    """Run the stages before `verify`, whose outs are sealed with the gate that their findings met."""
    for name in ("prepare", "train", "export", "optimize"):
        assert stage(checkout, name).returncode == 0


def test_a_model_without_a_padding_mask_is_warned_of_once_and_passes_where_only_other_kinds_fail(optimized, copy_of, stage):
    checkout = copy_of(optimized, verify={"fail_on": ["random-forward", "nan-weights"]})
    make_again(checkout, stage)
    done = stage(checkout, "verify")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("verify: warning: batch-dependent: ") == 1
    assert [item["kind"] for item in report(checkout, "verify")["findings"] if item["severity"] == "warning"] == [
        "batch-dependent",
        "loosened-limits",  # the checkout compares few rows
    ]


def test_the_same_model_misses_the_gate_that_its_user_sets(optimized, copy_of, stage):
    checkout = copy_of(optimized, verify={"fail_on": ["batch-dependent"]})
    make_again(checkout, stage)
    done = stage(checkout, "verify")
    assert done.returncode == 3, done.stdout
    assert "error: verify: verify.fail_on: warning: batch-dependent: eager's own output" in done.stderr
    assert [check["name"] for check in report(checkout, "verify")["verdict"]["checks"] if not check["passed"]] == ["verify.fail_on"]


def test_a_model_whose_answers_will_change_with_the_clock_cannot_be_proven(optimized, copy_of, stage):
    checkout = copy_of(optimized, model={"kwargs": {"classes": 3, "masked": "until 2040"}})
    for name in ("train", "export", "optimize"):
        assert stage(checkout, name).returncode == 0
    done = stage(checkout, "verify")
    assert done.returncode == 3, done.stdout
    line = SOURCE.split("time.time()")[0].count("\n") + 1
    assert "verify: error: hidden-influence: the answers change with the clock: 30 years later, output 'output' differs by" in done.stdout
    assert f"their_sequences.py:{line}" in done.stdout
    assert "the model itself cannot be proven: the answers change with the clock" in done.stderr
    assert json.loads((checkout / "models/parity/passed.json").read_text()) == {}


@pytest.mark.parametrize("count", [2, 5])
def test_logits_that_do_not_fit_the_classes_are_refused_before_the_first_epoch(theirs, copy_of, stage, count):
    checkout = copy_of(theirs, model={"kwargs": {"classes": count, "masked": False}})
    done = stage(checkout, "train")
    assert done.returncode == 2, done.stdout
    assert f"the first output 'output' has {count} logits, and data.classes names 3 classes: let forward" in done.stderr
    assert "epoch 1" not in done.stdout


def test_a_classifier_without_labels_says_so_where_it_is_exported(optimized, copy_of, stage):
    two, model = ["low", "high"], {"kwargs": {"classes": 1, "masked": False}}
    checkout = copy_of(optimized, data={"classes": two, "kwargs": {"kinds": two}}, model=model, train={"loss": "their_sequences:loss"})
    for name in ("prepare", "train"):
        assert stage(checkout, name).returncode == 0
    done = stage(checkout, "export")
    assert done.returncode == 0, done.stderr
    assert "export: warning: class-count: the first output 'output' is [batch, 1], and data.classes names 2 classes" in done.stdout
    edit_params(checkout, verify={"fail_on": ["class-count"]})
    assert stage(checkout, "prepare").returncode == 0  # the seal of its out holds the gate
    done = stage(checkout, "train")
    assert done.returncode == 3, done.stdout
    assert "class-count" in done.stderr
