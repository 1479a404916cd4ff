"""A task kind from a package outside the repository, as docs/how-to/add-task-kind.md shows it, from the reader to a proven candidate."""

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

PAGE = Path(__file__).parents[2] / "docs/how-to/add-task-kind.md"
METADATA = "Metadata-Version: 2.1\nName: paddleship-ordinal\nVersion: 0.1.0\n"
CLASSES = ["poor", "fair", "good", "great"]
CODE = """
import json

from paddle import nn


def read(raw):
    for line in raw.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def build(features, classes):
    return nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Linear(16, classes))
"""
ASK = """
import sys
from pathlib import Path
import numpy as np
from paddleship.shipped.serving.model import ServedModel
print(ServedModel(Path(sys.argv[1])).predict({"x": np.array([[-2, 0], [2, 0]], np.float32)})["label"])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder for the import path with the distribution that the page shows."""
    folder, page = tmp_path_factory.mktemp("site"), PAGE.read_text(encoding="utf-8")
    files = dict(re.findall(r"^```python\n# (paddleship_ordinal/\w+\.py)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    assert [*files] == ["paddleship_ordinal/decision.py", "paddleship_ordinal/kind.py"]
    for name, text in {**files, "paddleship_ordinal/__init__.py": ""}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (entries,) = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    about = folder / "paddleship_ordinal-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(METADATA, encoding="utf-8")
    (about / "entry_points.txt").write_text(entries.replace("project.entry-points.", "").replace('"', ""), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def run(site, warm_commands):
    def stage(checkout, *command, path=(site,)):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(checkout), *map(str, path)])}
        return subprocess.run([sys.executable, *command], cwd=checkout, env=environment, capture_output=True, text=True, check=False)

    return stage


@pytest.fixture(scope="module")
def verified(tmp_path_factory, checkout_of, base_params, run):
    theirs = tmp_path_factory.mktemp("theirs")
    (theirs / "films.py").write_text(CODE, encoding="utf-8")
    values = np.random.default_rng(0).normal(size=(500, 2)).round(4)
    rows = [{"x": value.tolist(), "stars": CLASSES[int(np.searchsorted([-1, 0, 1], value[0]))]} for value in values]
    (theirs / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    checkout = checkout_of("ordinal")
    (checkout / "params.yaml").write_text(yaml.safe_dump(loading.merge(base_params, overlay(theirs)), sort_keys=False), encoding="utf-8")
    for name in ("fingerprint", "prepare", "train", "export", "optimize", "verify"):
        done = run(checkout, "-m", f"tasks.{name}")
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
    return checkout


def overlay(theirs):
    return {
        "name": "films",
        "code": {"root": str(theirs), "watch": str(theirs / "films.py")},
        "data": {
            "fetch": {},
            "raw": str(theirs / "rows.jsonl"),
            "reader": "films:read",
            "kwargs": {},
            "inputs": ["x"],
            "label": "stars",
            "task": "ordinal",
            "classes": CLASSES,
        },
        "preprocess": {"kind": "tensors"},
        "model": {
            "factory": "films:build",
            "kwargs": {"features": 2, "classes": 4},
            "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 2]}],
        },
        "train": {"epochs": 8, "batch_size": 16, "learning_rate": 0.02, "weight_decay": 0.0, "min_score": 0.9},
        "optimize": {"candidates": ["onnxruntime"], "tune_seconds": 0},
        "verify": {"samples": 24, "max_batch": 4, "training": False},
    }


@pytest.mark.slow
def test_its_score_is_the_gate_and_its_decision_is_what_a_server_names(verified, run):
    metrics = json.loads((verified / "reports/train.json").read_text(encoding="utf-8"))["metrics"]
    assert metrics["validation_closeness"] > 0.9
    row = json.loads((verified / "reports/verify.json").read_text(encoding="utf-8"))["candidates"]["onnxruntime"]
    assert (row["status"], row["flip_rate"]) == ("proven", 0)
    asked = run(verified, "-c", ASK, "models/candidates/onnxruntime")
    assert asked.stdout.strip() == "['poor', 'great']", asked.stderr


@pytest.mark.slow
def test_an_edit_of_it_is_refused_until_the_data_is_prepared_again(verified, site, run):
    before = json.loads((verified / "environment.json").read_text(encoding="utf-8"))
    assert before["paddleship-ordinal"] == "0.1.0"
    file = site / "paddleship_ordinal/kind.py"
    text = file.read_text(encoding="utf-8")
    try:
        file.write_text(text + "\n# edited\n", encoding="utf-8")
        assert run(verified, "-m", "tasks.fingerprint").returncode == 0
        after = json.loads((verified / "environment.json").read_text(encoding="utf-8"))
        refused = run(verified, "-m", "tasks.train")
    finally:
        file.write_text(text, encoding="utf-8")
    assert {key for key in before if before[key] != after[key]} == {"task ordinal", "decision ordinal"}
    assert refused.returncode == 2
    assert "the code of the task kind 'ordinal' changed since the data was prepared: run `paddleship run --again prepare`" in refused.stderr


@pytest.mark.slow
def test_without_its_package_it_is_refused_with_those_that_are_registered(verified, run):
    done = run(verified, "-m", "tasks.prepare", path=())
    assert done.returncode == 2
    said = "data.task: must be 'classification', 'ctc', 'multilabel', 'multilabel_probabilities', 'regression' or 'tagging' (got 'ordinal')"
    assert said in done.stderr
