"""A model of text, numbers and tags, in packages outside the repository: a kind for each input, one of them from an entry point."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from paddleship.config import loading

PAGE = Path(__file__).parents[2] / "docs/how-to/add-preprocess-kind.md"
CODE = '''
import csv

import paddle
from paddle import nn


def read(raw):
    with raw.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            yield {**row, "price": float(row["price"]), "bought": int(row["bought"])}


class Shop(nn.Layer):
    """Mean of the characters of a title, a price and tags in; class scores out."""

    def __init__(self, vocabulary_size, tags):
        super().__init__()
        self.characters = nn.Embedding(vocabulary_size, 8, padding_idx=0)
        self.head = nn.Linear(8 + 1 + tags, 2)

    def forward(self, ids, price, tags):
        known = (ids != 0).astype("float32").unsqueeze(-1)
        title = (self.characters(ids) * known).sum(axis=1) / known.sum(axis=1).clip(min=1)
        return self.head(paddle.concat([title, price.unsqueeze(-1), tags], axis=-1))


def build(vocabulary_size, tags):
    return Shop(vocabulary_size, tags)
'''
METADATA = "Metadata-Version: 2.1\nName: paddleship-tags\nVersion: 0.1.0\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder for the import path with the distribution of the kind that the page shows."""
    folder = tmp_path_factory.mktemp("site")
    (text,) = re.findall(r"^```python\n# paddleship_tags.py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (entry,) = re.findall(r'^(\[project.entry-points."paddleship.preprocess"\]\n.*?)^```$', PAGE.read_text(encoding="utf-8"), re.M | re.S)
    (folder / "paddleship_tags.py").write_text(text, encoding="utf-8")
    about = folder / "paddleship_tags-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(METADATA, encoding="utf-8")
    (about / "entry_points.txt").write_text(
        entry.replace('[project.entry-points."paddleship.preprocess"]', "[paddleship.preprocess]").replace('"', ""), encoding="utf-8"
    )
    return folder


@pytest.fixture(scope="module")
def run(site, warm_commands):
    def stage(checkout, name, *, path=(site,)):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(checkout), *map(str, path)])}
        return subprocess.run(
            [sys.executable, "-m", f"tasks.{name}"], cwd=checkout, env=environment, capture_output=True, text=True, check=False
        )

    return stage


@pytest.fixture(scope="module")
def verified(tmp_path_factory, checkout_of, base_params, run):
    """A checkout whose params name a model outside it, after everything before the benchmark."""
    theirs = tmp_path_factory.mktemp("theirs")
    (theirs / "shop.py").write_text(CODE, encoding="utf-8")
    random = np.random.default_rng(0)
    with (theirs / "rows.csv").open("w", encoding="utf-8") as rows:
        rows.write("title,price,tags,bought\n")
        for _ in range(400):
            good, cheap, red = random.integers(2, size=3)
            title = f"{('poor', 'fine')[good]} {('cup', 'Ｂowl', 'old plate')[random.integers(3)]} {random.integers(1000)}"
            price, tags = random.uniform(1, 9) * (10 if cheap else 1e6), ["red; small", "small;blue"][red]
            rows.write(f"{title},{price:.2f},{tags},{int(good and cheap)}\n")
    checkout = checkout_of("shop")
    values = loading.merge(base_params, overlay(theirs))
    (checkout / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    for stage in ("fingerprint", "prepare", "train", "export", "optimize", "verify"):
        done = run(checkout, stage)
        assert done.returncode == 0, f"{stage}: {done.stdout}{done.stderr}"
    return checkout


def overlay(theirs):
    return {
        "name": "shop",
        "code": {"root": str(theirs), "watch": str(theirs / "shop.py")},
        "data": {
            "fetch": {},
            "raw": str(theirs / "rows.csv"),
            "reader": "shop:read",
            "inputs": ["title", "price", "tags"],
            "label": "bought",
            "task": "classification",
            "classes": ["no", "yes"],
            "validation": 0.2,
            "test": 0.2,
            "near_repeat_share": 1.0,
        },
        "preprocess": {
            "inputs": {
                "ids": {"kind": "characters", "column": "title", "vocabulary_size": 64, "max_length": 24, "multiple_of": 8},
                "price": {"kind": "numbers", "log": True},
                "tags": {"kind": "tags", "separator": ";"},
            }
        },
        "model": {
            "factory": "shop:build",
            "kwargs": {"vocabulary_size": 64, "tags": 4},
            "inputs": [
                {"name": "ids", "dtype": "int64", "shape": ["batch", "length"]},
                {"name": "price", "dtype": "float32", "shape": ["batch"]},
                {"name": "tags", "dtype": "float32", "shape": ["batch", 4]},
            ],
        },
        "train": {"epochs": 6, "batch_size": 16, "learning_rate": 0.02, "weight_decay": 0.0, "min_score": 0.7},
        "optimize": {"candidates": ["paddle", "onnxruntime"], "tune_seconds": 0},
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
        "package": {"repository": f"paddleship/test-shop-{os.getpid()}"},
        "accept": {"load_requests": 50, "max_cold_start_ms": 120_000},
    }


def report(checkout, stage):
    return json.loads((checkout / "reports" / f"{stage}.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_text_numbers_and_tags_are_trained_on_exported_and_proven(verified):
    assert {one["status"] for one in report(verified, "verify")["candidates"].values()} == {"proven"}
    candidate = json.loads((verified / "models/candidates/onnxruntime/candidate.json").read_text(encoding="utf-8"))
    entries = candidate["preprocess"]["inputs"]
    assert {name: entry["kind"] for name, entry in entries.items()} == {"ids": "characters", "price": "numbers", "tags": "tags"}
    assert entries["tags"]["names"] == ["small", "blue", "red"]
    assert [feature["name"] for feature in candidate["profile"]["features"]] == [
        *("title.length", "title.unknown_share", "title.rarity", "price"),
        *(f"tags[{index}]" for index in range(4)),
    ]


@pytest.mark.slow
def test_an_edit_of_the_kind_is_refused_until_the_data_is_prepared_again(verified, site, run):
    before = json.loads((verified / "environment.json").read_text(encoding="utf-8"))
    assert before["paddleship-tags"] == "0.1.0"
    file = site / "paddleship_tags.py"
    text = file.read_text(encoding="utf-8")
    try:
        file.write_text(text + "\n# edited\n", encoding="utf-8")
        assert run(verified, "fingerprint").returncode == 0
        after = json.loads((verified / "environment.json").read_text(encoding="utf-8"))
        refused = run(verified, "train")
    finally:
        file.write_text(text, encoding="utf-8")
    assert run(verified, "fingerprint").returncode == 0
    assert {key for key in before if before[key] != after[key]} == {"preprocess tags"}
    assert refused.returncode == 2
    assert "the code of the preprocess kind 'tags' of input 'tags' changed since the data was prepared" in refused.stderr
    assert "`paddleship run --again prepare`" in refused.stderr


@pytest.mark.slow
def test_without_its_package_the_kind_is_refused_with_those_that_are_registered(verified, run):
    done = run(verified, "prepare", path=())
    assert done.returncode == 2
    known = "categories, characters, image, numbers, own, tensors, tokens"
    assert f"preprocess.inputs.tags: there is no preprocess kind 'tags' (registered kinds: {known})" in done.stderr


@pytest.fixture(scope="module")
def packaged(verified, run, engine):
    """The same checkout with its image, which is gone afterwards."""
    for stage in ("benchmark", "package"):
        done = run(verified, stage)
        assert done.returncode == 0, f"{stage}: {done.stdout}{done.stderr}"
    yield verified
    for image in engine.images.list(name=yaml.safe_load((verified / "params.yaml").read_text(encoding="utf-8"))["package"]["repository"]):
        engine.images.remove(image.id, force=True)


@pytest.mark.slow
@pytest.mark.engine
def test_its_image_has_the_kind_and_answers_as_eager_does(packaged, run, engine):
    identity = json.loads((packaged / "image.json").read_text(encoding="utf-8"))["image_id"]
    listing = "from paddleship.shipped.computing.preprocess import registry; print(*registry.found())"
    inside = engine.containers.run(identity, ["-c", listing], entrypoint="python", remove=True, network_disabled=True).decode()
    assert inside.split() == ["categories", "characters", "image", "numbers", "own", "tags", "tensors", "tokens"]
    done = run(packaged, "accept")
    assert done.returncode == 0, done.stdout + done.stderr
    release = json.loads((packaged / "release.json").read_text(encoding="utf-8"))
    assert release["accepted"]
    assert [item["datatype"] for item in release["example"]["request"]["inputs"]] == ["BYTES", "FP64", "BYTES"]
