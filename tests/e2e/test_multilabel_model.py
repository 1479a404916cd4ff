"""A multilabel model in a package of its own outside the repository: from its reader to a proven candidate that names its labels."""

import json

import numpy as np
import pytest
import yaml

from paddleship.config import loading
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.serving.model import ServedModel

MODEL = """
from paddle import nn


def build(features, labels):
    return nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Linear(16, labels))
"""
DATA = """
import json


def read(raw):
    for line in raw.read_text().splitlines():
        yield json.loads(line)
"""
CLASSES = ["high", "even", "left, or right"]


def write_rows(path):
    """Each label depends on a feature of its own, so that a row has none to three."""
    random = np.random.default_rng(0)
    with path.open("w") as lines:
        for values in random.normal(size=(600, 4)).round(4):
            labels = [name for name, value in zip(CLASSES, values, strict=False) if value > 0.3]
            lines.write(json.dumps({"features": values.tolist(), "genres": labels}) + "\n")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory, checkout_of, base_params):
    theirs = tmp_path_factory.mktemp("theirs")
    package = theirs / "film_genres"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "models.py").write_text(MODEL)
    (package / "data.py").write_text(DATA)
    write_rows(theirs / "rows.jsonl")
    checkout = checkout_of("multilabel")
    (checkout / "params.yaml").write_text(yaml.safe_dump(loading.merge(base_params, overlay(theirs)), sort_keys=False))
    return checkout


def overlay(theirs):
    return {
        "name": "genres",
        "code": {"root": str(theirs), "watch": str(theirs / "film_genres")},
        "data": {
            "fetch": {},
            "raw": str(theirs / "rows.jsonl"),
            "reader": "film_genres.data:read",
            "kwargs": {},
            "inputs": ["features"],
            "label": "genres",
            "task": "multilabel",
            "classes": CLASSES,
        },
        "preprocess": {"kind": "tensors"},
        "model": {
            "factory": "film_genres.models:build",
            "kwargs": {"features": 4, "labels": 3},
            "inputs": [{"name": "features", "dtype": "float32", "shape": ["batch", 4]}],
        },
        "answer": {"above": {"high": 0.9}},
        "train": {"epochs": 15, "batch_size": 16, "learning_rate": 0.02, "weight_decay": 0.0, "min_score": 0.8},
        "optimize": {"candidates": ["onnxruntime"], "tune_seconds": 0},
        "verify": {"samples": 24, "max_batch": 8},
    }


@pytest.mark.slow
def test_a_multilabel_model_goes_from_its_reader_to_a_proven_candidate_that_names_its_labels(checkout, stage):
    for name in ("fingerprint", "prepare", "train", "export", "optimize", "verify"):
        done = stage(checkout, name)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    reports = {name: json.loads((checkout / "reports" / f"{name}.json").read_text()) for name in ("prepare", "train", "verify")}
    assert list(reports["prepare"]["facts"]["class_share"]) == CLASSES
    metrics = reports["train"]["metrics"]
    assert metrics["validation_micro_f1"] > 0.8
    assert metrics["baseline_test_micro_f1"] < metrics["test_micro_f1"]
    assert 0 < metrics["test_exact_match"] <= 1
    assert reports["verify"]["candidates"]["onnxruntime"]["status"] == "proven"

    folder = checkout / "models/candidates/onnxruntime"
    assert Candidate.load(folder).labels == tuple(CLASSES)
    answer = ServedModel(folder).predict({"features": np.array([[2, -2, 2, 0], [-2, -2, -2, 0]], np.float32)})
    assert [json.loads(label) for label in answer["label"]] == [["high", "left, or right"], []]
    assert [[one["label"] for one in json.loads(row)] for row in answer["answer"]] == [["high", "left, or right"], []]
    assert json.loads(answer["answer"][0])[0]["probability"] > 0.9
    assert reports["verify"]["candidates"]["onnxruntime"]["answer_flip_rate"] == 0
