"""A CSV with text, numbers, categories and dates goes to an image: what is served equals eager, row by row."""

import json
import os

import numpy as np
import pytest
import yaml

from paddleship.config import loading
from paddleship.errors import RequestError
from paddleship.shipped.serving.model import ServedModel
from tests.e2e.stage_runs import run

MODEL = '''
import paddle
from paddle import nn


class Prices(nn.Layer):
    """The mean of a description's characters, a town, two numbers, which of them are missing, and a day in; a price out."""

    def __init__(self, vocabulary_size, towns):
        super().__init__()
        self.characters = nn.Embedding(vocabulary_size, 8, padding_idx=0)
        self.town = nn.Embedding(towns, 4)
        self.body = nn.Sequential(nn.Linear(8 + 4 + 2 + 2 + 2, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, ids, town, size, lacks, day):
        known = (ids != 0).astype("float32").unsqueeze(-1)
        text = (self.characters(ids) * known).sum(axis=1) / known.sum(axis=1).clip(min=1)
        return self.body(paddle.concat([text, self.town(town), size, lacks, day], axis=-1))


def build(vocabulary_size, towns):
    return Prices(vocabulary_size, towns)
'''
DAYS = '''
"""A date as the angle of its day in the year."""

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from math import cos, sin, tau

import numpy as np

from paddleship.errors import RequestError
from paddleship.shipped.computing.preprocess.registration import InputEncoder, param
from paddleship.shipped.computing.spec import TensorSpec


@dataclass(frozen=True, kw_only=True)
class Day(InputEncoder):
    days: float = param("length of a year", 365.25)

    @cached_property
    def request(self):
        return TensorSpec(self.column, "str", ("batch",))

    @property
    def longest_text(self):
        return 10

    def accept(self, value):
        self.encode(value)
        return value

    def encode(self, value):
        try:
            angle = tau * date.fromisoformat(value).timetuple().tm_yday / self.days
        except ValueError:
            raise RequestError(f"input {self.column!r} is no date (got {value[:20]!r})", "give it as 2024-01-31") from None
        return np.array([sin(angle), cos(angle)], self.spec.dtype)
'''
REPOSITORY = f"paddleship/test-houses-{os.getpid()}"
TOWNS = {"Oslo": 3.0, "Rome": 1.0, "01234": 0.0}


@pytest.fixture
def checkout(tmp_path, checkout_of, base_params, warm_commands):
    """A checkout whose params name the CSV and the model."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "prices.py").write_text(MODEL)
    (theirs / "days.py").write_text(DAYS)
    random = np.random.default_rng(0)
    lines = ["description,town,rooms,area,sold,price"]
    for number in range(400):
        town, rooms, area = str(random.choice(list(TOWNS))), int(random.integers(1, 6)), round(float(random.normal(80, 20)), 1)
        text = "new" if random.integers(2) else "old"
        price = TOWNS[town] + rooms + area / 40 + (2 if text == "new" else 0)
        town = "" if number % 50 == 7 else town
        rooms, area = "" if number % 40 == 11 else rooms, "" if number % 60 == 13 else area
        lines.append(f'"{text}, nr {number}",{town},{rooms},{area},2024-01-{number % 28 + 1:02},{price:.3f}')
    (theirs / "houses.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    inputs = [("ids", "int64", ["batch", "length"]), ("town", "int64", ["batch"]), ("size", "float32", ["batch", 2])]
    inputs += [("lacks", "float32", ["batch", 2]), ("day", "float32", ["batch", 2])]
    overlay = {
        "name": "houses",
        "code": {"root": str(theirs), "watch": str(theirs)},
        "data": {
            "fetch": {}, "raw": str(theirs / "houses.csv"), "reader": "csv",
            "kwargs": {"vectors": {"size": ["rooms", "area"], "y": ["price"]}},
            "inputs": ["description", "town", "size", "sold"], "label": "y", "task": "regression", "classes": [],
            "unusable_share": 0.1, "near_repeat_share": 1.0,
        },
        "preprocess": {"inputs": {
            "ids": {"kind": "characters", "column": "description", "max_length": 16, "multiple_of": 16, "vocabulary_size": 40},
            "town": {"kind": "categories"}, "size": {"kind": "numbers", "missing": "median", "indicator": "lacks"},
            "day": {"kind": "own", "encoder": "days:Day", "column": "sold", "kwargs": {"days": 366}},
        }},
        "model": {
            "factory": "prices:build", "kwargs": {"vocabulary_size": 40, "towns": 4},
            "inputs": [{"name": name, "dtype": dtype, "shape": shape} for name, dtype, shape in inputs],
        },
        "train": {"epochs": 20, "batch_size": 16, "learning_rate": 0.02, "schedule": "cosine", "weight_decay": 0.0, "min_score": 0.9},
        "optimize": {"candidates": ["onnxruntime"], "tune_seconds": 0},
        "verify": {"samples": 24, "max_batch": 4},
        "benchmark": {"batch_sizes": [1], "concurrency": [], "starts": 1, "warmup_s": 0.2, "scenario_seconds": 0.5, "max_seconds": 2},
        "package": {"repository": REPOSITORY},
    }  # fmt: skip
    folder = checkout_of("houses")
    base = {key: value for key, value in base_params.items() if key != "preprocess"}
    (folder / "params.yaml").write_text(yaml.safe_dump(loading.merge(base, overlay), sort_keys=False))
    return folder


def test_rows_without_a_name_are_dropped_and_the_loop_learns_from_the_table(checkout):
    run(checkout, "prepare", "train")
    report = json.loads((checkout / "reports/prepare.json").read_text())
    assert report["facts"]["dropped"]["empty"] == {"town": 8}
    assert {name: one["rows"] for name, one in report["facts"]["filled"].items()} == {"rooms": 10, "area": 7}
    assert "17 missing numbers filled" in report["headline"]
    assert "filled-numbers" in {finding["kind"] for finding in report["findings"]}
    stored = json.loads((checkout / "data/prepared/schema.json").read_text())["preprocess"]["inputs"]
    assert set(stored["town"]["names"]) == set(TOWNS)
    assert len(stored["size"]["fill"]) == 2


@pytest.mark.engine
@pytest.mark.long
def test_the_image_is_accepted_and_answers_names_known_or_not_and_refuses_an_empty_one(checkout, engine):
    run(checkout, "prepare", "train", "export", "optimize", "verify", "benchmark", "package", "accept")
    release = json.loads((checkout / "release.json").read_text(encoding="utf-8"))
    assert release["accepted"]
    assert [one["name"] for one in release["example"]["request"]["inputs"]] == ["description", "town", "size", "sold"]
    for built in engine.images.list(name=REPOSITORY):
        engine.images.remove(built.id, force=True)
    model = ServedModel(checkout / "models/candidates/onnxruntime")

    def price(town, sold="2024-01-09", size=(3.0, 80.0)):
        columns = {"description": ["new, nr 5"], "town": [town], "size": [np.array(size)], "sold": [sold]}
        return float(model.predict(columns)["output"].item())

    assert price("Oslo") - price("Rome") == pytest.approx(2.0, abs=0.7)
    assert np.isfinite(price("Paris"))
    assert np.isfinite(price("Rome", size=(np.nan, np.nan)))
    cases = json.loads((checkout / "models/parity/cases.json").read_text())["cases"]
    assert [len(case["made"]) for case in cases if "made" in case] == [1, 3]
    with pytest.raises(RequestError, match="is empty"):
        price(" ")
    with pytest.raises(RequestError, match=r"input 'sold' is no date \(got 'yesterday'\)"):
        price("Oslo", "yesterday")
