"""Reports as stages leave them, and a tracker for them."""

import shutil
from datetime import UTC, datetime

import pytest

from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict
from paddleship.tracking.run import Tracker


@pytest.fixture
def reports(tmp_path):
    """Two reports on disk as stages leave them: a training with its curve, a benchmark with a picture and a failed candidate."""
    folder = tmp_path / "reports"
    passed = Verdict(checks=[Check.at_least("x", 1, 1)])
    row = {"p50_ms": 1.0, "noise_ratio": 0.9, "status": "measured", "reason": "", "runtime": "onnxruntime", "file_bytes": 1000}
    gain = {"speedup": 3.0, "speedup_low": 2.0, "speedup_high": 4.0}
    made = [
        Report(
            stage="train",
            headline="learned",
            metrics={"test_accuracy": 0.9},
            verdict=passed,
            facts={"history": [{"loss": 2.0}, {"loss": 1.0}]},
        ),
        Report(
            stage="benchmark",
            headline="fast",
            metrics=gain,
            verdict=passed,
            candidates={
                "eager": row | {"p50_ms": 3.0},
                "onnxruntime": row | gain | {"winner": True},
                "paddle": {"status": "failed", "reason": "died of SIGSEGV"},
            },
            facts={
                "winner": "onnxruntime",
                "reason": "it has the best p50_ms",
                "curves": {"onnxruntime": {"batch_size": [], "length": []}},
            },
            pictures=["benchmark/latency.png"],
        ),
    ]
    (folder / "benchmark").mkdir(parents=True)
    (folder / "benchmark" / "latency.png").write_bytes(b"\x89PNG")
    for number, report in enumerate(made):
        report.started_at = datetime(2026, 1, 1, 0, number, tzinfo=UTC)
        report.write(folder)
    return made, folder


@pytest.fixture
def store(tmp_path, mlflow_db):
    shutil.copy(mlflow_db, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


@pytest.fixture
def start(reviews_params, tmp_path):
    def make(uri):
        flow_run = "01234567-0123-7123-8123-0123459f31c2"
        tags = {"mlflow.runName": "reviews: epochs=3 (9f31c2)", "git_commit": "c0ffee", "prefect_flow_run": flow_run}
        return Tracker.start(
            reviews_params(), tracking_uri=uri, artifact_root=(tmp_path / "artifacts").as_uri(), spool=tmp_path / "spool", tags=tags
        )

    return make
