"""Pairs of texts with an existing tokenizer.json, from a CSV to an image: what is served equals eager, and what is no pair is refused."""

import json
import os

import numpy as np
import pytest
import yaml

from paddleship.config import loading
from paddleship.errors import RequestError
from paddleship.shipped.computing.preprocess.token_training import Recipe, train
from paddleship.shipped.serving.model import ServedModel
from tests.e2e.stage_runs import run

MODEL = '''
import paddle
from paddle import nn


class Matches(nn.Layer):
    """Whether an answer names what the question asks for: the mean of each text's tokens, and their product."""

    def __init__(self, vocabulary_size):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary_size, 16)
        self.output = nn.Sequential(nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, ids, seen, side):
        second = side.astype("float32") * seen.astype("float32")
        vectors, means = self.tokens(ids), []
        for part in (seen.astype("float32") - second, second):
            part = part.unsqueeze(-1)
            means.append((vectors * part).sum(axis=1) / part.sum(axis=1).clip(min=1))
        return {"logits": self.output(paddle.concat([*means, means[0] * means[1]], axis=-1))}


def build(vocabulary_size):
    return Matches(vocabulary_size)
'''
REPOSITORY = f"paddleship/test-matches-{os.getpid()}"
THINGS = ("red cup", "蓝色 杯子", "old plate", "new bowl")


@pytest.fixture
def checkout(tmp_path, checkout_of, base_params, warm_commands):
    """A checkout whose params name the CSV, the model and the tokenizer beside it."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "matches.py").write_text(MODEL)
    random = np.random.default_rng(0)
    rows = []
    for number in range(500):
        asked, named = random.integers(len(THINGS)), random.integers(len(THINGS))
        named = asked if number % 2 else named
        rows.append((f"Ｗhere is the {THINGS[asked]} nr {number}?", f"The {THINGS[named]} is here", ("no", "yes")[int(asked == named)]))
    lines = ["question,answer,right", *(",".join(row) for row in rows)]
    (theirs / "pairs.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    texts = tuple(text for row in rows for text in row[:2])
    (theirs / "tokenizer.json").write_text(train(texts, Recipe("wordpiece", 200, "NFKC", True)), encoding="utf-8")
    entry = {"kind": "tokens", "column": "texts", "tokenizer": str(theirs / "tokenizer.json"), "pair": True, "max_length": 32}
    overlay = {
        "name": "matches",
        "code": {"root": str(theirs), "watch": str(theirs)},
        "data": {
            "fetch": {}, "raw": str(theirs / "pairs.csv"), "reader": "csv", "kwargs": {"vectors": {"texts": ["question", "answer"]}},
            "inputs": ["texts"], "label": "right", "task": "classification", "classes": ["no", "yes"], "near_repeat_share": 1.0,
        },
        "preprocess": {"inputs": {"ids": {**entry, "mask": "seen", "types": "side"}}},
        "model": {
            "factory": "matches:build", "kwargs": {"vocabulary_size": 200},
            "inputs": [{"name": name, "dtype": "int64", "shape": ["batch", "length"]} for name in ("ids", "seen", "side")],
        },
        "train": {"epochs": 12, "batch_size": 16, "learning_rate": 0.02, "weight_decay": 0.0, "min_score": 0.8},
        "optimize": {"candidates": ["paddle", "onnxruntime"], "tune_seconds": 0},
        "select": {"candidate": "onnxruntime"},
        "verify": {"samples": 24, "max_batch": 4},
        "benchmark": {"batch_sizes": [1], "concurrency": [], "starts": 1, "warmup_s": 0.2, "scenario_seconds": 0.5, "max_seconds": 2},
        "package": {"repository": REPOSITORY},
        "accept": {"max_cold_start_ms": 120_000},
    }  # fmt: skip
    folder = checkout_of("matches")
    base = {key: value for key, value in base_params.items() if key != "preprocess"}
    (folder / "params.yaml").write_text(yaml.safe_dump(loading.merge(base, overlay), sort_keys=False))
    return folder


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.engine
def test_the_image_is_accepted_and_has_the_library_without_the_hub(checkout, engine):
    run(checkout, "fingerprint", "prepare", "train", "export", "optimize", "verify", "benchmark", "package", "accept")
    release = json.loads((checkout / "release.json").read_text(encoding="utf-8"))
    assert release["accepted"]
    assert [(one["name"], one["datatype"]) for one in release["example"]["request"]["inputs"]] == [("texts", "BYTES")]
    identity = json.loads((checkout / "image.json").read_text(encoding="utf-8"))["image_id"]
    listing = "import tokenizers\nfrom importlib.util import find_spec\nprint(tokenizers.__version__, find_spec('huggingface_hub'))"
    inside = engine.containers.run(identity, ["-c", listing], entrypoint="python", remove=True, network_disabled=True).decode()
    assert inside.split()[1] == "None"
    for built in engine.images.list(name=REPOSITORY):
        engine.images.remove(built.id, force=True)
    model = ServedModel(checkout / "models/candidates/onnxruntime")
    asked = ["Where is the red cup?", "The red cup is here"]
    answer = model.predict({"texts": [json.dumps(asked), json.dumps({"text": asked[0], "pair": "The old plate is here"})]})
    assert answer["label"] == ["yes", "no"]
    long = json.dumps([asked[0], "the red cup " * 30])
    assert model.cuts({"texts": [long]})[0]["kept"] == 32
    with pytest.raises(RequestError, match="two texts in JSON"):
        model.predict({"texts": ["Where is the red cup?"]})
