"""What a user may import from `paddleship` itself."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import paddleship

REPOSITORY = Path(__file__).parents[2]
LIST = "import json, sys, paddleship; print(json.dumps([sorted(sys.modules), [str(getattr(paddleship, n)) for n in paddleship.__all__]]))"


def test_every_name_is_there_and_none_is_loaded_before_it_is_asked_for():
    done = subprocess.run([sys.executable, "-c", LIST], capture_output=True, text=True, check=True)
    modules, found = json.loads(done.stdout.splitlines()[-1])
    assert not {"numpy", "paddle", "pydantic", "paddleship.errors"} & set(modules)
    assert len(found) == len(paddleship.__all__)


def test_another_name_is_an_error_that_lists_what_there_is():
    with pytest.raises(AttributeError, match=r"no attribute 'compare' \(it offers Candidate, .*load_params\)"):
        paddleship.compare  # noqa: B018 it is the access that raises


def test_the_params_of_a_checkout_are_read_and_a_wrong_value_is_refused(tmp_path):
    assert paddleship.load_params(REPOSITORY / "params.yaml").name == "reviews"
    with pytest.raises(paddleship.PaddleshipError):
        paddleship.load_params(tmp_path / "params.yaml")


def test_a_model_is_examined_and_a_candidate_of_it_loaded_asked_and_compared(tmp_path, monkeypatch):
    (tmp_path / "tiny.py").write_text("import paddle\n\n\ndef build():\n    return paddle.nn.Linear(3, 2)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    model = paddleship.Model(factory="tiny:build", inputs=[paddleship.Input(name="x", dtype="float32", shape=["batch", 3])])
    examination = paddleship.examine(model, work=tmp_path / "work", candidates=["paddle", "onnxruntime"])
    assert isinstance(examination, paddleship.Examination)
    assert {name: row.status for name, row in examination.runtimes.items()} == {"paddle": "proven", "onnxruntime": "proven"}
    x = np.ones((4, 3), np.float32)
    answers = [paddleship.load(tmp_path / "work" / name).run({"x": x}) for name in ("paddle", "onnxruntime")]
    (output,) = [spec.name for spec in paddleship.Candidate.load(tmp_path / "work" / "paddle").outputs]
    assert paddleship.differences(*[answer[output] for answer in answers]).max_abs_diff < 1e-6
