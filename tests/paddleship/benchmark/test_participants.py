"""Who takes part in a benchmark, and as what: `to_static` has the shapes that the exported program takes."""

from pathlib import Path

import pytest

from paddleship.benchmark import gpu_break_even
from paddleship.benchmark.participants import Participants
from paddleship.config import loading
from paddleship.model import eager
from paddleship.shipped.computing.candidate import Candidate, Program
from paddleship.shipped.computing.spec import TensorSpec

REPOSITORY = Path(__file__).parents[3]
ROWS = {"paddle": {"status": "leaks", "reason": "its memory grows"}}
X = TensorSpec("x", "float32", ("batch", "length"))


@pytest.mark.parametrize(
    ("runtime", "programs", "shapes"),
    [("paddle", (), (X,)), ("paddle", (Program("4", {"length": 4}),), ()), ("paddle-eager", (), ())],
    ids=["in every shape", "in fixed sizes", "not at all"],
)
def test_to_static_is_given_the_shapes_that_the_exported_program_takes(tmp_path, runtime, programs, shapes):
    read = loading.load(Path("params.yaml"))
    changed = read.model_copy(update={"paths": read.paths.model_copy(update={"candidates": str(tmp_path)})})
    (tmp_path / "one").mkdir()
    Candidate("one", "m:build", runtime, "float32", 1, (X,), (), {"kind": "tensors"}, "", "", programs=programs).save(tmp_path / "one")
    load, arguments = Participants(changed, {"one": {}}).load("to_static")
    assert (load, arguments[1]) == (eager.load_static, shapes)


@pytest.fixture
def participants(tmp_path):
    def make(*candidates):
        (tmp_path / "onnxruntime").mkdir(exist_ok=True)
        values = loading.read(REPOSITORY / "params.yaml")
        values |= {"paths": {"candidates": str(tmp_path)}, "optimize": {"candidates": list(candidates)}}
        return Participants(loading.parse(values), {"paddle": {}})

    return make


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("paddle-eager", "see the report of optimize"),
        ("onnxruntime", "see the report of verify"),
        ("paddle", "cannot be chosen (leaks: its memory grows)"),
    ],
)
def test_what_was_asked_for_and_is_no_choice_says_which_stage_knows_why(participants, name, words):
    assert words in participants("paddle", "onnxruntime", "paddle-eager").absent(name, ROWS)


def test_a_candidate_on_a_gpu_costs_its_cores_and_the_gpu(participants):
    made = participants("paddle", "onnxruntime")
    assert made._price(gpu=True) - made._price(gpu=False) == pytest.approx(2.0 / 3600 * 1e6)
    assert [name for name in ("eager", "paddle", "onnxruntime-cuda-graph") if made.on_gpu(name)] == ["onnxruntime-cuda-graph"]


@pytest.mark.parametrize(
    ("gpu", "cpu", "size"),
    [
        ({1: 100, 8: 900}, {1: 50, 8: 60}, 8),
        ({1: 900, 8: 900}, {1: 9, 8: 60}, 1),
        ({1: 90, 8: 90}, {1: 50, 8: 60}, None),
        ({}, {1: 5}, None),
    ],
)
def test_the_gpu_pays_from_the_batch_size_from_which_on_its_rows_are_cheaper(gpu, cpu, size):
    rates = {"cpu": cpu, "slow": {1: 1, 8: 1}, "gpu": gpu}
    assert gpu_break_even.batch_size(rates, {"cpu": 1, "slow": 1, "gpu": 10}, ["gpu"]) == size


def test_what_was_not_asked_for_is_not_missed(participants):
    assert participants("paddle").absent("paddle-eager", ROWS) == ""
