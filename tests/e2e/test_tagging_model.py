"""A tagging model in a package of its own outside the repository: from its reader to an image that names spans of the text it was sent."""

import json
import os

import pytest
import yaml

from paddleship.config import loading
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.serving.model import ServedModel

MODEL = """
from paddle import nn


class Tagger(nn.Layer):
    \"\"\"The tag of each character by those around it. Padding is embedded as zeros, as a convolution pads, so it changes no answer.\"\"\"

    def __init__(self, vocabulary_size, tags):
        super().__init__()
        self.characters = nn.Embedding(vocabulary_size, 12, padding_idx=0)
        self.around = nn.Conv1D(12, 24, 11, padding=5)
        self.head = nn.Linear(24, tags)

    def forward(self, ids):
        found = nn.functional.relu(self.around(self.characters(ids).transpose([0, 2, 1])))
        return self.head(found.transpose([0, 2, 1]))


def build(vocabulary_size, tags):
    return Tagger(vocabulary_size, tags)
"""
DATA = '''
import json
import random

MONTHS = ["Jan", "Mar", "Jun", "Oct"]
WORDS = ["please", "send", "the", "ｂｉｌｌ", "of", "Ada", "\\ufb01le", "room 7", "by"]


def read(raw):
    """Sentences with dates, a tag for each character: some with two spaces, full-width letters and a ligature; some are cut."""
    for seed in json.loads(raw.read_text(encoding="utf-8")):
        yield sentence(random.Random(seed))


def sentence(choice):
    text, tags = "", []
    for _ in range(choice.randint(2, 9)):
        dated = choice.random() < 0.4
        word = f"{choice.randint(1, 28)} {choice.choice(MONTHS)} {choice.randint(1990, 2029)}" if dated else choice.choice(WORDS)
        tags += ["B-DATE"] + ["I-DATE"] * (len(word) - 1) if dated else ["O"] * len(word)
        gap = choice.choice([" ", "  ", ", "])
        text, tags = text + word + gap, tags + ["O"] * len(gap)
    return {"text": text, "tags": tags}
'''
TAGS = ["O", "B-DATE", "I-DATE"]
CANDIDATES = ["onnxruntime", "onnxruntime-int8"]


def overlay(theirs):
    return {
        "name": "dates",
        "code": {"root": str(theirs), "watch": str(theirs / "date_tags")},
        "data": {
            "fetch": {},
            "raw": str(theirs / "seeds.json"),
            "reader": "date_tags.data:read",
            "kwargs": {},
            "inputs": ["text"],
            "label": "tags",
            "task": "tagging",
            "classes": TAGS,
            "near_repeat_share": 1.0,
        },
        "preprocess": {"kind": "characters", "column": "text", "input": "ids", "vocabulary_size": 80, "max_length": 60, "multiple_of": 8},
        "model": {
            "factory": "date_tags.models:build",
            "kwargs": {"vocabulary_size": 80, "tags": 3},
            "inputs": [{"name": "ids", "dtype": "int64", "shape": ["batch", "length"]}],
        },
        "train": {"epochs": 8, "batch_size": 16, "learning_rate": 0.02, "weight_decay": 0.0, "min_score": 0.95},
        "optimize": {"candidates": CANDIDATES, "tune_seconds": 0},
        "select": {"candidate": "onnxruntime"},
        "verify": {"samples": 32, "max_batch": 8},
        "benchmark": {
            "batch_sizes": [1, 4],
            "concurrency": [],
            "starts": 1,
            "blocks": 4,
            "samples_per_block": 10,
            "warmup_s": 0.2,
            "scenario_seconds": 0.5,
            "max_seconds": 2,
            "max_busy_share": 1.0,
        },
        "package": {"repository": f"paddleship/test-dates-{os.getpid()}"},
        "accept": {"load_requests": 50, "max_cold_start_ms": 120_000},
    }


def report(checkout, stage):
    return json.loads((checkout / "reports" / f"{stage}.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def verified(tmp_path_factory, checkout_of, base_params, stage):
    theirs = tmp_path_factory.mktemp("theirs")
    package = theirs / "date_tags"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "models.py").write_text(MODEL, encoding="utf-8")
    (package / "data.py").write_text(DATA, encoding="utf-8")
    (theirs / "seeds.json").write_text(json.dumps([*range(500)]), encoding="utf-8")
    checkout = checkout_of("tagging")
    (checkout / "params.yaml").write_text(yaml.safe_dump(loading.merge(base_params, overlay(theirs)), sort_keys=False), encoding="utf-8")
    for name in ("fingerprint", "prepare", "train", "export", "optimize", "verify"):
        done = stage(checkout, name)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    return checkout


@pytest.mark.slow
def test_a_tagging_model_goes_from_its_reader_to_proven_candidates(verified):
    assert list(report(verified, "prepare")["facts"]["class_share"]) == TAGS
    metrics = report(verified, "train")["metrics"]
    assert metrics["baseline_test_tag_accuracy"] < 0.9 < metrics["test_tag_accuracy"]
    assert 0.8 < metrics["test_span_f1"] <= 1
    candidates = report(verified, "verify")["candidates"]
    assert {name: candidates[name]["status"] for name in CANDIDATES} == dict.fromkeys(CANDIDATES, "proven")
    assert 0 <= candidates["onnxruntime-int8"]["flip_rate"] < 0.02


@pytest.mark.slow
def test_it_names_the_spans_of_the_text_as_it_was_sent_and_alone_as_in_a_batch(verified):
    folder = verified / "models/candidates/onnxruntime"
    assert Candidate.load(folder).labels == tuple(TAGS)
    model = ServedModel(folder)
    texts = ["send the  \ufb01le by 12 Mar 2004 please", "by  ７ Jun 1999", "Ada " * 20 + "7 Jun 1999"]
    answers = [json.loads(label) for label in model.predict({"text": texts})["label"]]
    assert [[text[one["start"] : one["end"]] for one in spans] for text, spans in zip(texts, answers, strict=True)] == [
        ["12 Mar 2004"],
        ["７ Jun 1999"],
        [],  # beyond max_length
    ]
    assert {one["tag"] for spans in answers for one in spans} == {"DATE"}
    assert [json.loads(model.predict({"text": [text]})["label"][0]) for text in texts] == answers


@pytest.fixture(scope="module")
def packaged(verified, stage, engine):
    """The same checkout with its image, which is gone afterwards."""
    for name in ("benchmark", "package"):
        done = stage(verified, name)
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    yield verified
    for image in engine.images.list(name=yaml.safe_load((verified / "params.yaml").read_text(encoding="utf-8"))["package"]["repository"]):
        engine.images.remove(image.id, force=True)


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.long  # the answers are those of the candidate, which the shorter tests ask; acceptance judges labels in test_tagging.py
def test_its_image_answers_with_the_spans_of_eager(packaged, stage):
    done = stage(packaged, "accept")
    assert done.returncode == 0, done.stdout + done.stderr
    release = json.loads((packaged / "release.json").read_text(encoding="utf-8"))
    assert release["accepted"]
    checks = {check["name"]: check["measured"] for check in report(packaged, "accept")["verdict"]["checks"]}
    assert checks["labels"] == 0
    outputs = {one["name"]: one for one in release["example"]["answer"]["outputs"]}
    text = release["example"]["request"]["inputs"][0]["data"][0]
    for span in json.loads(outputs["label"]["data"][0]):
        assert span["tag"] == "DATE"
        assert text[span["start"] : span["end"]].strip()
