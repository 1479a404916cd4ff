"""What an image tells its server."""

from types import SimpleNamespace

import pytest

from paddleship.config import loading
from paddleship.containers import building
from paddleship.custody import proofs
from paddleship.custody.proofs import RowFacts
from paddleship.shipped.serving.settings import Settings
from tests.stage_code import REPOSITORY


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
    assert building.settings(params, SimpleNamespace(precision=precision)) == expected


def test_the_image_has_the_processes_of_the_params(monkeypatch):
    monkeypatch.setattr(proofs, "row_facts", lambda _params: RowFacts(True, True))
    params = loading.load(REPOSITORY / "params.yaml")
    params = params.model_copy(update={"package": params.package.model_copy(update={"processes": 3})})
    assert building.settings(params, SimpleNamespace(precision="float32")).processes == 3
