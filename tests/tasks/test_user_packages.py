"""Packages of the user that are called as the checkout's own folders are."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from paddleship.config import loading

FILES = {
    "tasks/__init__.py": "",
    "tasks/network.py": "from docker.layers import line\n\nfrom tasks import sizes\n\n\ndef build():\n    return line(sizes.FEATURES)\n",
    "tasks/sizes.py": "FEATURES = 2\n",
    "docker/__init__.py": "",
    "docker/layers.py": "from paddle import nn\n\n\ndef line(features):\n    return nn.Linear(features, 1)\n",
    "flows/__init__.py": "",
    "flows/rows.py": """
import csv

from examples import columns


def read(raw):
    with raw.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            yield {"x": [float(row[name]) for name in columns.FEATURES], "y": [float(row["y"])]}
""",
    "examples/__init__.py": "",
    "examples/columns.py": 'FEATURES = ("x0", "x1")\n',
}


@pytest.fixture
def theirs(tmp_path):
    """A folder of their own with packages of these names."""
    for name, text in FILES.items():
        (tmp_path / "theirs" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "theirs" / name).write_text(text)
    return tmp_path / "theirs"


@pytest.mark.slow
@pytest.mark.spawned
def test_a_reader_in_flows_and_a_model_in_tasks_are_found_by_the_stages_and_their_children(theirs, linear_checkout_of, stage):
    checkout = linear_checkout_of("user_packages")
    params = checkout / "params.yaml"
    changes = {
        "code": {"root": str(theirs), "watch": str(theirs)},
        "data": {"reader": "flows.rows:read"},
        "model": {"factory": "tasks.network:build", "kwargs": {}},
    }
    params.write_text(yaml.safe_dump(loading.merge(loading.read(params), changes), sort_keys=False))
    for name in ("prepare", "train", "export"):
        done = stage(checkout, name)
        assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads((checkout / "models/exported/candidate.json").read_text())["code_sha256"]


@pytest.mark.slow
@pytest.mark.spawned
def test_the_doctor_examines_a_model_in_tasks_in_the_folder_of_the_checkout(theirs, linear_checkout_of):
    checkout = linear_checkout_of("user_packages_doctor")
    arguments = ["doctor", "tasks.network:build", "--input", "x:float32[batch,2]", "--root", str(theirs)]
    done = subprocess.run(
        [sys.executable, "-m", "paddleship.cli.main", *arguments],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
