"""A checkpoint and ten rows without labels go to an accepted image: decisions are proven and served, and no score is claimed."""

import json
import os

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

from paddleship.config import loading
from paddleship.shipped.computing.files import sha256
from paddleship.shipped.serving.model import ServedModel
from tests.e2e.stage_runs import run, stage
from tests.tasks.sealing import sealed_again

MODEL = """
from paddle import nn


def build():
    return nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
"""
REPOSITORY = f"paddleship/test-unlabelled-{os.getpid()}"
ROWS = 10


def weights(seed):
    random = np.random.default_rng(seed)
    shapes = {"0.weight": (6, 32), "0.bias": (32,), "2.weight": (32, 3), "2.bias": (3,)}
    return {name: random.normal(size=shape).astype("float32") for name, shape in shapes.items()}


@pytest.fixture
def checkout(tmp_path, checkout_of, base_params, warm_commands):
    """A checkout whose params name ten rows without labels, and a file of weights."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "classifier.py").write_text(MODEL)
    save_file(weights(0), theirs / "weights.safetensors", metadata={"format": "paddle"})
    random = np.random.default_rng(1)
    lines = ["a,b,c,d,e,f", *(",".join(f"{number:.4f}" for number in random.normal(size=6)) for _ in range(ROWS))]
    (theirs / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    overlay = {
        "name": "unlabelled",
        "code": {"root": str(theirs), "watch": str(theirs / "classifier.py")},
        "data": {
            "fetch": {}, "raw": str(theirs / "rows.csv"), "reader": "csv", "kwargs": {"vectors": {"x": ["a", "b", "c", "d", "e", "f"]}},
            "inputs": ["x"], "label": None, "task": "classification", "classes": ["one", "two", "three"],
        },
        "model": {"factory": "classifier:build", "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 6]}]},
        "train": {"source": {"checkpoint": str(theirs / "weights.safetensors")}},
        "optimize": {"candidates": ["paddle", "onnxruntime"], "tune_seconds": 0},
        "verify": {"max_batch": 4},
        "benchmark": {"batch_sizes": [1], "concurrency": [], "starts": 1, "warmup_s": 0.2, "scenario_seconds": 0.5, "max_seconds": 2},
        "package": {"repository": REPOSITORY},
    }  # fmt: skip
    folder = checkout_of("unlabelled")
    base = {key: value for key, value in base_params.items() if key not in ("preprocess", "model", "train")}
    (folder / "params.yaml").write_text(yaml.safe_dump(loading.merge(base, overlay), sort_keys=False))
    return folder


def fails(checkout, name):
    """What a stage prints that misses a gate."""
    done = stage(checkout, name)
    assert done.returncode == 3, done.stdout + done.stderr
    return done.stderr


def report(checkout, stage):
    return json.loads((checkout / f"reports/{stage}.json").read_text(encoding="utf-8"))


def test_ten_rows_without_labels_are_enough_to_prove_a_checkpoint(checkout):
    run(checkout, "prepare", "train", "export", "optimize", "verify")
    prepared, trained, verified = (report(checkout, stage) for stage in ("prepare", "train", "verify"))
    assert prepared["metrics"]["train_rows"] + prepared["metrics"]["validation_rows"] + prepared["metrics"]["test_rows"] == ROWS
    assert (checkout / "reports/prepare").is_dir(), "an out of the stage"
    assert "few-rows" in [finding["kind"] for finding in prepared["findings"]]
    assert trained["headline"].startswith("no score, because the rows have no labels, with the weights of ")
    assert not any("accuracy" in name or "loss" in name for name in trained["metrics"])
    assert verified["candidates"]["onnxruntime"]["status"] == "proven"
    checks = {check["name"]: check for check in verified["verdict"]["checks"]}
    assert checks["rescored_test_differing_rows"]["measured"] == 0


@pytest.mark.engine
@pytest.mark.long
def test_the_image_is_accepted_and_names_the_class(checkout, engine):
    run(checkout, "prepare", "train", "export", "optimize", "verify", "benchmark", "package", "accept")
    release = json.loads((checkout / "release.json").read_text(encoding="utf-8"))
    assert release["accepted"]
    answer = ServedModel(next((checkout / "models/candidates").glob("*/candidate.json")).parent).predict({"x": [np.zeros(6)]})
    assert answer["label"] in (["one"], ["two"], ["three"])
    for built in engine.images.list(name=REPOSITORY):
        engine.images.remove(built.id, force=True)


@pytest.mark.long
def test_another_checkpoint_than_train_wrote_is_known_by_its_answers(checkout):
    run(checkout, "prepare", "train")
    folder = checkout / "models/checkpoint"
    save_file(weights(1), folder / "weights.safetensors")
    facts = json.loads((folder / "checkpoint.json").read_text())
    (folder / "checkpoint.json").write_text(json.dumps(facts | {"weights_sha256": sha256(folder / "weights.safetensors")}))
    sealed_again(folder)
    run(checkout, "export", "optimize")
    line = fails(checkout, "verify")
    assert "rescored_validation_differing_rows is 1" in line
    assert "checkpoint, code or data are not those of then" in line
