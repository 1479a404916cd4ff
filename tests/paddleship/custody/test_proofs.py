"""What verify saw of optional libraries: read for package, refused where it does not follow what another GPU needs."""

import re

import pytest

from paddleship.config import loading
from paddleship.custody import proofs
from paddleship.custody.proofs import MappedLibraries
from paddleship.errors import CandidateError
from paddleship.shipped.computing.candidate import Candidate
from tests.stage_code import REPOSITORY

SEEN = {"onnxruntime-cuda": ["nvidia/cu13/lib/libcublas.so.13"], "onnxruntime": ["plugins/liba.so"]}


def candidate(name):
    return Candidate(name, "m", name, "float32", 1, (), (), {}, "")


@pytest.fixture
def params(tmp_path):
    loaded = loading.load(REPOSITORY / "params.yaml")
    return loaded.model_copy(update={"paths": loaded.paths.model_copy(update={"parity": str(tmp_path)})})


def test_the_libraries_of_a_candidate_come_with_the_gpu_that_they_were_seen_on(params, tmp_path):
    proofs.write_mapped_libraries(tmp_path, SEEN, ["NVIDIA H200", "NVIDIA H200"])
    found = proofs.mapped_libraries(params, candidate("onnxruntime-cuda"))
    assert found == MappedLibraries(frozenset(SEEN["onnxruntime-cuda"]), "NVIDIA H200")


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        ([], "a machine with no known GPU, and another GPU may need others"),
        (["NVIDIA L4", "NVIDIA H200"], "a machine with NVIDIA H200 and NVIDIA L4, and another GPU may need others"),
    ],
)
def test_nothing_is_left_out_where_it_is_unknown_on_which_gpu_the_libraries_were_seen(params, tmp_path, gpus, words):
    proofs.write_mapped_libraries(tmp_path, SEEN, gpus)
    with pytest.raises(CandidateError, match=f"{words}: set package.unused_libraries: keep, or prove it"):
        proofs.mapped_libraries(params, candidate("onnxruntime-cuda"))
    assert proofs.mapped_libraries(params, candidate("onnxruntime")) == MappedLibraries(frozenset(["plugins/liba.so"]), "")


def test_without_a_record_nothing_is_left_out(params, tmp_path):
    proofs.write_mapped_libraries(tmp_path, {}, ["NVIDIA H200"])
    words = re.escape("verify saw no library of 'onnxruntime-cuda' that its image could leave out: set package.unused_libraries: keep")
    with pytest.raises(CandidateError, match=words):
        proofs.mapped_libraries(params, candidate("onnxruntime-cuda"))
