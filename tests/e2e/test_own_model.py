"""A team's own model, in a package of its own outside the repository: a params change, not a fork."""

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

MODEL = '''
import paddle
from paddle import nn


class TwoTowers(nn.Layer):
    """Sequence of vectors and a flag in, class scores and a length out: several inputs, several outputs, a branch."""

    def __init__(self, features, classes):
        super().__init__()
        self.norm = nn.BatchNorm1D(features)
        self.lstm = nn.LSTM(features, 8)
        self.flag = nn.Embedding(3, 4)
        self.head = nn.Linear(12, classes)

    def forward(self, signal, flag):
        normal = self.norm(signal.transpose([0, 2, 1])).transpose([0, 2, 1])
        _, (hidden, _) = self.lstm(normal)
        joined = paddle.concat([hidden[-1], self.flag(flag)], axis=-1)
        return self.head(joined), signal.abs().sum(axis=[1, 2])


def build(features, classes):
    return TwoTowers(features, classes)
'''

DATA = """
import json


def read(raw, limit):
    for line in raw.read_text().splitlines()[:limit]:
        yield json.loads(line)
"""


QUICK = {
    "optimize": {"candidates": ["onnxruntime"], "tune_seconds": 0},
    "benchmark": {
        "batch_sizes": [1, 4],
        "concurrency": [],
        "starts": 1,
        "warmup_s": 0.2,
        "scenario_seconds": 0.5,
        "max_seconds": 2,
    },
}


ANSWERS = """
def levels(outputs, classes):
    scores = next(iter(outputs.values()))
    return {"kind": classes[scores.argmax()], "lead": float(scores.max() - scores.mean()), "in order": scores.argsort()[::-1].tolist()}
"""


@pytest.fixture(params=[QUICK, pytest.param({}, marks=pytest.mark.long)], ids=["quick", "as params.yaml has it"])
def team(request, tmp_path, checkout_of, with_tables, warm_commands):
    """Their package and data in a folder of their own, and a checkout with a params file that points at them."""
    package = tmp_path / "theirs" / "my_package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "models.py").write_text(MODEL)
    (package / "data.py").write_text(DATA)
    (package / "answers.py").write_text(ANSWERS)
    random = np.random.default_rng(0)
    with (tmp_path / "theirs" / "rows.jsonl").open("w") as rows:
        for _ in range(400):
            kind = int(random.integers(3))
            signal = random.normal(kind, 0.3, (int(random.integers(2, 9)), 5))
            row = {"signal": signal.round(4).tolist(), "flag": int(random.integers(3)), "kind": ("low", "middle", "high")[kind]}
            rows.write(json.dumps(row) + "\n")
    checkout = with_tables(checkout_of("team"))
    (tmp_path / "theirs" / "params.yaml").write_text(yaml.safe_dump(loading.merge(overlay(tmp_path / "theirs"), request.param)))
    return checkout, tmp_path / "theirs" / "params.yaml"


def overlay(theirs):
    return {
        "name": "towers",
        "code": {"root": str(theirs), "watch": str(theirs / "my_package")},
        "data": {
            "fetch": {},
            "raw": str(theirs / "rows.jsonl"),
            "reader": "my_package.data:read",
            "kwargs": {"limit": 400},
            "inputs": ["signal", "flag"],
            "label": "kind",
            "task": "classification",
            "classes": ["low", "middle", "high"],
        },
        "preprocess": {"kind": "tensors"},
        "model": {
            "factory": "my_package.models:build",
            "kwargs": {"features": 5, "classes": 3},
            "inputs": [
                {"name": "signal", "dtype": "float32", "shape": ["batch", "length", 5]},
                {"name": "flag", "dtype": "int64", "shape": ["batch"]},
            ],
        },
        "answer": {"own": "my_package.answers:levels"},
        "train": {"epochs": 4, "batch_size": 16, "learning_rate": 0.02, "weight_decay": 0.0, "min_score": 0.7},
        "verify": {"samples": 24, "max_batch": 8},
        "benchmark": {"blocks": 4, "samples_per_block": 10, "max_seconds": 20},
        "package": {"repository": "paddleship/towers"},
        "accept": {"load_requests": 50},
    }


@pytest.mark.slow
@pytest.mark.engine
def test_a_model_outside_the_repository_goes_all_the_way_to_an_accepted_image(team, prefect_url):
    checkout, params_file = team
    command = [sys.executable, "-m", "paddleship.cli.main", "run", "--params", str(params_file)]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PREFECT_API_URL": prefect_url}
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "paddleship/towers:" in done.stdout
    assert "rows over HTTP as eager" in done.stderr
    status = subprocess.run(["git", "status", "--porcelain"], cwd=checkout, capture_output=True, text=True, check=True)
    assert status.stdout == "", "the checkout was touched"
    assert not list(params_file.parent.rglob("__pycache__")), "compiled files would be changes of code.watch"
    assert_brought_back(checkout, done.stdout)


def assert_brought_back(checkout, printed):
    """The commands that `trace` prints bring params and rows of the run into a fresh clone."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    tag = re.search(r"^image +(\S+)$", printed, re.MULTILINE)[1]
    traced = subprocess.run(
        [sys.executable, "-m", "paddleship.cli.main", "trace", tag],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    clone = checkout.parent / "clone"
    subprocess.run(["git", "clone", "-q", str(checkout), str(clone)], check=True)
    commands = [line for line in traced.partition("back to source, params and rows")[2].splitlines() if line.startswith("  ")]
    assert commands
    on_path = {**environment, "PYTHONPATH": str(clone), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    ended = subprocess.run(["bash", "-ec", "\n".join(commands)], cwd=clone, env=on_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{commands}: {ended.stderr}"
    again = subprocess.run(
        [sys.executable, "-m", "paddleship.cli.main", "trace", tag], cwd=clone, env=on_path, capture_output=True, text=True, check=True
    )
    here = again.stdout.partition("in this folder:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split("  ")[-1].strip() for line in here] == ["the same"] * 4, here
    assert yaml.safe_load((clone / "params.yaml").read_text())["name"] == "towers"
    assert (clone / "source/code/my_package/models.py").read_text() == MODEL
    assert f"sha256 {json.loads((clone / 'data/prepared/schema.json').read_text())['data_sha256']}" in traced
