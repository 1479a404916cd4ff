"""fingerprint: versions and machine as files, rewritten only where they say something else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml

from paddleship.config import loading
from paddleship.stage.fingerprint import fingerprint
from paddleship.system import host


def read(folder):
    return [json.loads((folder / name).read_text()) for name in ("environment.json", "host.json")]


def test_versions_of_what_computes_and_this_machine_are_written(tmp_path, reviews_params):
    fingerprint(reviews_params(), tmp_path)
    versions, machine = read(tmp_path)
    assert {"python", "machine", "paddlepaddle", "onnxruntime", "paddle2onnx"} <= set(versions)
    assert machine == host.fingerprint()


def test_any_machine_is_one_and_the_same(tmp_path, reviews_params):
    fingerprint(reviews_params({"benchmark": {"host": "any"}}), tmp_path)
    assert read(tmp_path)[1] == {"host": "any"}


def test_what_stays_the_same_is_left_alone_and_what_was_damaged_is_written_anew(tmp_path, reviews_params):
    values = reviews_params()
    fingerprint(values, tmp_path)
    before = (tmp_path / "host.json").stat()
    (tmp_path / "environment.json").write_text("{")
    fingerprint(values, tmp_path)
    assert (tmp_path / "host.json").stat().st_ino == before.st_ino
    assert read(tmp_path)[0]["python"]


def test_a_candidate_that_no_runtime_registers_is_one_line_and_nothing_is_written(tmp_path, base_params):
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(loading.merge(base_params, {"optimize": {"candidates": ["onnxruntine"]}})))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "tasks.fingerprint"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: optimize.candidates names 'onnxruntine'")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "environment.json").exists()
