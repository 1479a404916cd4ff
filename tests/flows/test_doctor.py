"""`paddleship doctor` as a person and a machine meet it: what is printed where, and the exit codes."""

import json
import subprocess

import pytest

from paddleship.shipped.computing.runtimes import registry
from tests.flows.helpers import PROGRAM, REPOSITORY

MODEL = """
import paddle
from paddle import nn

class Gate(nn.Layer):
    def __init__(self):
        super().__init__()
        self.expert = nn.Linear(8, 4)

    def forward(self, x):
        y = self.expert(x)
        return y * max(y.mean(), y.max())

def plain(width=4):
    return nn.Linear(8, width)
"""


def doctor(folder, *arguments):
    return subprocess.run([PROGRAM, "doctor", *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "gate.py").write_text(MODEL)
    return tmp_path


@pytest.mark.slow
def test_a_model_that_converts_ends_with_0_and_clean_json(folder):
    done = doctor(folder, "gate:plain", "--kwargs", '{"width": 3}', "--input", "x:float32[batch,8]", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["outcome"], found["exit_code"], found["findings"]) == ("convertible", 0, [])
    assert {row["status"] for row in found["runtimes"].values()} == {"proven"}
    assert "watching the eager model" in done.stderr


def test_a_model_that_does_not_convert_ends_with_2_and_names_the_line(folder):
    done = doctor(folder, "gate:Gate", "--input", "x:float32[batch,8]")
    assert done.returncode == 2
    assert done.stdout.startswith("gate:Gate: not convertible (1 error)")
    assert " at gate.py:12\n" in done.stdout
    if why := registry.kinds()["onnxruntime-cuda"].unavailable():
        assert f"  not tried      onnxruntime-cuda: {why}\n" in done.stdout


@pytest.mark.slow
def test_a_model_whose_params_are_laid_over_those_of_the_checkout_is_examined():
    done = doctor(REPOSITORY, "--params", "examples/linear/params.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("examples.linear.model:build: convertible")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["gate:Gate", "--params", "gate.yaml"], "MODULE:FACTORY and --params both name a model"),
        (["gate:Gate"], "has no declared input"),
        (["gate:Gate", "--input", "x:float32"], "does not parse"),
        (["gate:Gate", "--input", "x:float32[batch,8]", "--root", "nowhere"], "--root 'nowhere' is not a folder"),
        (["gate:Gate", "--input", "x:float32[batch,8]", "--checkpoint", "nowhere"], "--checkpoint 'nowhere' is not a folder"),
        ([], "there is no params.yaml here: name the model as MODULE:FACTORY"),
    ],
)
def test_bad_input_is_one_line_and_ends_with_2(folder, arguments, words):
    done = doctor(folder, *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def test_inputs_that_do_not_fit_forward_end_with_2(folder):
    done = doctor(folder, "gate:Gate", "--input", "x:float32[batch,8]", "--input", "y:float32[batch,8]")
    assert done.returncode == 2
    assert "forward takes 1 input (x), and 2 are declared (x, y)" in done.stdout
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".pyc" and path.name != "__pycache__") == ["gate.py"]


def test_an_exported_file_has_no_code_to_examine_which_is_one_line(tmp_path):
    (tmp_path / "theirs.yaml").write_text("train: {source: {exported: /theirs/inference.json}}\n")
    done = doctor(REPOSITORY, "--params", str(tmp_path / "theirs.yaml"))
    assert done.returncode == 2
    assert "train.source is an exported file, and the doctor examines Python code" in done.stderr
    assert len(done.stderr.splitlines()) == 1
