"""PP-OCRv4 as it is published: the examples' detector and recogniser, from the downloaded files to proven candidates."""

import json
import os
import subprocess
import sys

import pytest
import yaml

from paddleship.config import loading

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(1800)]

QUICK = {"optimize": {"tune_seconds": 0}, "verify": {"samples": 12, "max_batch": 2}}


@pytest.mark.parametrize(
    ("part", "expected"), [("recogniser", {"paddle", "onnxruntime", "openvino"}), ("detector", {"paddle", "openvino"})]
)
def test_the_exported_files_of_ppocr_become_proven_candidates(part, expected, checkout_of):
    """Where the detector answers 1e-9, ONNX Runtime's sigmoid is off by 1e-7, which eager's own rounding does not explain."""
    checkout = checkout_of(f"ppocr-{part}")
    overlay = yaml.safe_load((checkout / f"examples/ppocr/{part}.yaml").read_text())
    values = loading.merge(loading.merge(loading.read(checkout / "params.yaml"), overlay), QUICK)
    (checkout / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    commands = [["examples/ppocr/fetch.py", "data/raw/ppocr"]]
    commands += [["-m", f"tasks.{stage}"] for stage in ("prepare", "train", "export", "optimize", "verify")]
    for command in commands:
        done = subprocess.run([sys.executable, *command], cwd=checkout, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    if part == "recogniser":
        assert json.loads((checkout / "reports/train.json").read_text())["metrics"]["test_character_accuracy"] > 0.9
    report = json.loads((checkout / "reports/verify.json").read_text())
    proven = {name for name, row in report["candidates"].items() if row["status"] == "proven"}
    assert expected <= proven
    candidate = json.loads((checkout / "models/candidates/openvino/candidate.json").read_text())
    assert "width" in candidate["inputs"][0]["shape"]  # any width, not one program for each
    assert candidate["programs"] == []
