"""Who takes part in a benchmark, and as what: `to_static` has the shapes that the exported program takes."""

from pathlib import Path

import pytest

from paddleship import eager, params
from paddleship.benchmark.entrants import Entrants
from paddleship.candidate import Candidate, Program
from paddleship.spec import TensorSpec

X = TensorSpec("x", "float32", ("batch", "length"))


@pytest.mark.parametrize(
    ("runtime", "programs", "told"),
    [("paddle", (), (X,)), ("paddle", (Program("4", {"length": 4}),), ()), ("paddle-eager", (), ())],
    ids=["in every shape", "in fixed sizes", "not at all"],
)
def test_to_static_is_given_the_shapes_that_the_exported_program_takes(tmp_path, runtime, programs, told):
    read = params.load(Path("params.yaml"))
    changed = read.model_copy(update={"paths": read.paths.model_copy(update={"candidates": str(tmp_path)})})
    (tmp_path / "one").mkdir()
    Candidate("one", "m:build", runtime, "float32", 1, (X,), (), {"kind": "tensors"}, "", "", programs=programs).save(tmp_path / "one")
    load, arguments = Entrants(changed, {"one": {}}).load("to_static")
    assert (load, arguments[1]) == (eager.load_static, told)
