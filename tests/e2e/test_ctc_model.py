"""A model that reads texts step by step (CTC), from rows of different widths to an image that answers the text."""

import json
import os

import numpy as np
import pytest
import yaml

from paddleship.config import loading
from paddleship.shipped.serving.model import ServedModel
from tests.e2e.stage_runs import run

CODE = """
import numpy as np
from paddle import nn

CHARACTERS = "abc好的"


def read(raw):
    random = np.random.default_rng(0)
    for _ in range(240):
        text = "".join(random.choice(list(CHARACTERS), random.integers(1, 7)))
        yield {"strokes": drawn(text, random), "text": text}


def drawn(text, random):
    \"\"\"One to three steps for each character, and steps between them that show none.\"\"\"
    steps = [0]
    for character in text:
        steps += [CHARACTERS.index(character) + 1] * int(random.integers(1, 4)) + [0]
    return (np.eye(6)[steps] + random.normal(0, 0.05, (len(steps), 6))).astype("float32").round(3)


def build():
    return nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 6))
"""
REPOSITORY = f"paddleship/test-ctc-{os.getpid()}"


@pytest.fixture
def checkout(tmp_path, checkout_of, base_params, warm_commands):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "strokes.py").write_text(CODE, encoding="utf-8")
    overlay = {
        "name": "strokes",
        "code": {"root": str(theirs), "watch": str(theirs / "strokes.py")},
        "data": {
            "fetch": {}, "raw": str(theirs / "strokes.py"), "reader": "strokes:read", "kwargs": {},
            "inputs": ["strokes"], "label": "text", "task": "ctc", "classes": list("abc好的"), "near_repeat_share": 1.0,
        },
        "model": {"factory": "strokes:build", "inputs": [{"name": "strokes", "dtype": "float32", "shape": ["batch", "width", 6]}]},
        "train": {"epochs": 40, "batch_size": 16, "learning_rate": 0.03, "weight_decay": 0.0, "min_score": 0.9},
        "optimize": {"candidates": ["onnxruntime", "onnxruntime-int8"], "tune_seconds": 0},
        "verify": {"max_batch": 4, "max_flip_rate": 0.25},
        "benchmark": {"batch_sizes": [1], "concurrency": [], "starts": 1, "warmup_s": 0.2, "scenario_seconds": 0.5, "max_seconds": 2},
        "package": {"repository": REPOSITORY},
    }  # fmt: skip
    folder = checkout_of("strokes")
    base = {key: value for key, value in base_params.items() if key not in ("preprocess", "model")}
    (folder / "params.yaml").write_text(yaml.safe_dump(loading.merge(base, overlay), sort_keys=False), encoding="utf-8")
    return folder


def test_a_trained_reader_is_proven_and_its_candidate_answers_the_text(checkout):
    run(checkout, "prepare", "train", "export", "optimize", "verify")
    trained, verified = (json.loads((checkout / f"reports/{stage}.json").read_text(encoding="utf-8")) for stage in ("train", "verify"))
    assert trained["metrics"]["test_character_accuracy"] > 0.95
    assert trained["metrics"]["test_exact_texts"] > 0.8
    rows = verified["candidates"]
    assert {row["status"] for row in rows.values()} == {"proven"}
    assert rows["onnxruntime-int8"]["flip_rate"] < 0.1
    assert rows["onnxruntime-int8"]["metric"] > 0.95
    model = ServedModel(checkout / "models/candidates/onnxruntime")
    steps = np.eye(6)[[0, 4, 4, 0, 4, 5, 0, 1]]
    assert model.predict({"strokes": [steps, steps[:3]]})["label"] == ["好好的a", "好"]


@pytest.mark.engine
@pytest.mark.long
def test_the_image_is_accepted(checkout, engine):
    run(checkout, "prepare", "train", "export", "optimize", "verify", "benchmark", "package", "accept")
    assert json.loads((checkout / "release.json").read_text(encoding="utf-8"))["accepted"]
    for built in engine.images.list(name=REPOSITORY):
        engine.images.remove(built.id, force=True)
