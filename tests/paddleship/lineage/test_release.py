from datetime import UTC, datetime

import pytest

from paddleship.lineage.release import Lineage

FACTS = {
    "model": "tiny",
    "git_commit": "c" * 40,
    "git_changes": ["a.py", "b/c.py"],
    "data_sha256": "d" * 64,
    "params_sha256": "e" * 64,
    "dvc_lock_sha256": "f" * 64,
    "weights_sha256": "0" * 64,
    "code_sha256": "2" * 64,
    "weights_source": f"imported, sha256 {'7' * 64}",
    "library_sha256": "3" * 64,
    "server_sha256": "4" * 64,
    "candidate": "onnxruntime",
    "candidate_digest": "1" * 64,
    "runtime": "onnxruntime",
    "noise_ratio": 0.7542200931626544,
    "speedup": 7.3,
    "speedup_low": 7.2,
    "speedup_high": 7.4,
}
CREATED = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"git_changes": []},
        {"measured_on": "node7 (EPYC 9654, 96 cores)", "benchmark_valid": False},
        {"mlflow_run_id": "run", "mlflow_tracking_uri": "http://here", "prefect_flow_run_id": "flow", "experiment": "run-1"},
    ],
)
def test_labels_carry_the_whole_lineage_there_and_back(changes):
    lineage = Lineage(**FACTS | changes)
    assert Lineage.from_labels(lineage.labels(base_image="base:1", created=CREATED)) == lineage


def test_labels_speak_the_oci_names():
    labels = Lineage(**FACTS).labels(base_image="base:1", created=CREATED, source="https://example.org/repo")
    assert labels["org.opencontainers.image.revision"] == "c" * 40
    assert labels["org.opencontainers.image.created"] == "2024-05-06T07:08:09+00:00"
    assert labels["org.opencontainers.image.base.name"] == "base:1"
    assert labels["org.opencontainers.image.source"] == "https://example.org/repo"
    assert all(isinstance(value, str) for value in labels.values())


@pytest.mark.parametrize("labels", [{}, {"maintainer": "x"}, {"io.paddleship.stand-in": "made here"}])
def test_an_image_of_another_origin_has_no_lineage(labels):
    assert Lineage.from_labels(labels) is None
