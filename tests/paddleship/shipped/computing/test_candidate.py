import json

import pytest

from paddleship.errors import CandidateError
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.spec import Dimension, TensorSpec


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.json").write_text("{}")
    Candidate(
        name="paddle",
        model="m",
        runtime="paddle",
        precision="float32",
        threads=1,
        inputs=(TensorSpec("x", "float32", ("batch", 2)),),
        outputs=(TensorSpec("y", "float32", ("batch",)),),
        preprocess={"kind": "tensors"},
        weights_sha256="0" * 64,
        task="classification",
        classes=("否", "yes"),
        max_batch=8,
        dimensions=(Dimension("length", 2, 64, 2),),
    ).save(tmp_path)
    return tmp_path


def test_a_candidate_survives_disk(folder):
    candidate = Candidate.load(folder)
    assert candidate.inputs[0].shape == ("batch", 2)
    assert candidate.classes == ("否", "yes")
    assert (candidate.max_batch, candidate.dimensions) == (8, (Dimension("length", 2, 64, 2),))
    assert list(candidate.files) == ["model.json"]
    assert candidate.save(folder).digest == candidate.digest


@pytest.mark.parametrize("harm", [lambda path: path.write_text("[]"), lambda path: path.unlink()], ids=["changed", "missing"])
def test_a_file_that_is_not_the_one_it_was_is_never_loaded(folder, harm):
    harm(folder / "model.json")
    with pytest.raises(CandidateError, match="sha256"):
        runtimes.load(folder)


def test_another_schema_is_refused(folder):
    path = folder / "candidate.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": 99}))
    with pytest.raises(CandidateError, match="schema version 99"):
        Candidate.load(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema_version": 1}'])
def test_an_unreadable_candidate_says_what_to_run(folder, text):
    (folder / "candidate.json").write_text(text)
    with pytest.raises(CandidateError, match="make it again with `paddleship run --again optimize`"):
        Candidate.load(folder)


def test_an_exported_program_that_was_changed_names_the_stage_that_makes_it(folder):
    (folder / "model.json").write_text("[]")
    with pytest.raises(CandidateError, match="make it again with `paddleship run --again export`"):
        Candidate.load(folder, stage="export")


def test_an_unknown_runtime_is_named(folder):
    candidate = Candidate.load(folder)
    Candidate(**{**candidate.__dict__, "runtime": "abacus"}).save(folder)
    with pytest.raises(CandidateError, match="abacus"):
        runtimes.load(folder)
