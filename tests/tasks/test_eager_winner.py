"""The eager model as the winner: from optimize to what the image holds of it, asked by an interpreter that has nothing else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from paddleship.image import context, sbom
from paddleship.image.runtime_layers import RuntimeLayers
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.serving.settings import Settings

ASK = """
import sys
import numpy as np
from pathlib import Path
from paddleship.shipped.serving.model import ServedModel

served = ServedModel(Path(sys.argv[1]), max_batch=8)
print(served.candidate.runtime, float(served.predict({"x": np.array([[1.0, 2.0]], dtype="float32")})["output"][0, 0]))
"""


def test_eager_is_proven_measured_and_chosen_with_what_it_needs(won):
    proven = json.loads((won / "models/parity/passed.json").read_text())
    assert proven["paddle-eager"]["noise_ratio"] < 3
    benchmark = json.loads((won / "reports/benchmark.json").read_text())
    assert benchmark["facts"]["winner"] == "paddle-eager"
    assert "it needs the model's Python code in the image" in benchmark["facts"]["reason"]
    assert benchmark["candidates"]["paddle-eager"]["image_bytes"] > 100_000_000


@pytest.mark.long  # an image of another winner is made and asked in test_package and test_accept
@pytest.mark.slow
def test_what_is_packaged_of_it_answers_with_nothing_else_at_hand(won, tmp_path, monkeypatch):
    monkeypatch.chdir(won)
    folder = won / "models/candidates/paddle-eager"
    candidate = Candidate.load(folder)
    RuntimeLayers.of(candidate).lay_out(tmp_path)
    bill = (tmp_path / "lib" / sbom.RUNTIME_IN_IMAGE[1:]).read_text()
    context.lay_out(tmp_path, folder, candidate, Settings(), bill=bill)
    site, app, lib, model = (tmp_path / part / "opt/paddleship" / part for part in ("site", "app", "lib", "model"))
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "LD_LIBRARY_PATH": str(lib)}
    done = subprocess.run(
        [sys._base_executable, "-c", ASK, str(model)],
        cwd=tmp_path, env={**bare, "PYTHONPATH": f"{app}:{site}"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    platform, answer = done.stdout.split()
    assert platform == "paddle-eager"
    assert float(answer) == pytest.approx(_expected(won), rel=1e-6)


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.long  # what is packaged of it is asked above, and an image of another winner is accepted in test_accept
def test_it_is_accepted_as_any_winner(won, engine, stage):
    for name in ("package", "accept"):
        done = stage(won, name)
        assert done.returncode == 0, done.stderr
    assert json.loads((won / "release.json").read_text())["runtime"] == "paddle-eager"


def _expected(checkout: Path) -> float:
    from safetensors.numpy import load_file

    weights = load_file(checkout / "models/checkpoint/weights.safetensors")
    return float((np.array([1.0, 2.0], np.float32) @ weights["weight"] + weights["bias"])[0])
