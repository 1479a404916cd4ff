"""What an image tells its server."""

from types import SimpleNamespace

import pytest

from paddleship.config import loading
from paddleship.containers import building
from paddleship.custody import proofs
from paddleship.custody.proofs import MappedLibraries, RowFacts
from paddleship.shipped.serving.settings import Settings
from tests.stage_code import REPOSITORY


def with_package(**values):
    params = loading.load(REPOSITORY / "params.yaml")
    return params.model_copy(update={"package": params.package.model_copy(update=values)})


@pytest.mark.parametrize(
    ("precision", "facts", "slo", "expected"),
    [
        ("float32", RowFacts(True, True), None, Settings(batching=True, padding=True)),
        ("float32", RowFacts(True, False), 50, Settings(batching=True, slo_p99_ms=50)),
        ("float32", RowFacts(False, True), None, Settings()),
        ("int8", RowFacts(True, True), 50, Settings(slo_p99_ms=50)),
    ],
)
def test_requests_share_batches_where_that_is_proven_and_the_objective_is_that_of_the_benchmark(
    monkeypatch, precision, facts, slo, expected
):
    monkeypatch.setattr(proofs, "row_facts", lambda _params: facts)
    params = loading.load(REPOSITORY / "params.yaml")
    params = params.model_copy(update={"benchmark": params.benchmark.model_copy(update={"slo_p99_ms": slo})})
    assert building.settings(params, SimpleNamespace(precision=precision, runtime="onnxruntime")) == expected


def test_the_image_has_the_processes_of_the_params(monkeypatch):
    monkeypatch.setattr(proofs, "row_facts", lambda _params: RowFacts(True, True))
    params = with_package(processes=3)
    assert building.settings(params, SimpleNamespace(precision="float32", runtime="onnxruntime")).processes == 3


@pytest.mark.parametrize(
    ("runtime", "unused", "expected"),
    [("onnxruntime-cuda", "remove", "NVIDIA H200"), ("onnxruntime-cuda", "keep", ""), ("onnxruntime", "remove", "")],
)
def test_an_image_without_unused_libraries_is_for_the_gpu_that_verify_ran_on(monkeypatch, runtime, unused, expected):
    monkeypatch.setattr(proofs, "row_facts", lambda _params: RowFacts(True, True))
    monkeypatch.setattr(proofs, "mapped_libraries", lambda _params, _candidate: MappedLibraries(frozenset(["a.so"]), "NVIDIA H200"))
    candidate = SimpleNamespace(precision="float32", runtime=runtime)
    assert building.settings(with_package(unused_libraries=unused), candidate).gpu == expected


def test_an_image_that_is_too_large_says_which_limit_would_do():
    (check,) = building.checks(2_345_678_901, 1_200_000_000)
    assert not check.passed
    assert "raise package.max_image_bytes to at least 2345678901" in str(check)
