"""A run in a real MLflow on SQLite: what is in it, and what never stops the work."""

from datetime import timedelta

import pytest

from paddleship.errors import GateFailed
from paddleship.reports.finding import Finding
from paddleship.tracking import runs
from paddleship.tracking.live import live_metrics
from tests.paddleship.pages import made
from tests.tasks.tracking.helpers import children, client

GAIN = {"speedup", "speedup_low", "speedup_high"}
FIGURES = {"p50_ms", "p50_us", "noise_ratio", "file_bytes", *GAIN}


def test_a_run_has_metrics_params_tags_pictures_and_a_page_to_read(start, store, reports, tmp_path):
    tracker = start(store)
    for report in reports[0]:
        tracker.log_report(report, reports[1], cached=False)
    tracker.finish()
    run = client(store).get_run(tracker.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["train/test_accuracy"] == 0.9
    assert run.data.params["train.epochs"] == "8"
    assert run.data.tags["git_commit"] == "c0ffee"
    assert run.data.tags["stages_passed"] == "train benchmark"
    assert "stages_cached" not in run.data.tags
    page = run.data.tags["mlflow.note.content"]
    assert "onnxruntime is 3.00× as fast as eager" in page
    assert page.index("| **onnxruntime** |") < page.index("| eager |")
    artifacts = {item.path for folder in ("reports", "pictures/benchmark") for item in client(store).list_artifacts(tracker.run_id, folder)}
    assert artifacts == {"reports/train.json", "reports/benchmark.json", "pictures/benchmark/latency.png"}
    assert tracker.undelivered is None
    assert not list((tmp_path / "spool").iterdir())


def test_findings_are_metrics_a_tag_and_lines_of_the_page(start, store, reports):
    tracker = start(store)
    found = [Finding("batch-dependent", "warning", "padding counts", "mask it", "model.py:3"), Finding("no-float64", "note", "why")]
    report = reports[0][0].model_copy(update={"findings": found})
    report.write(reports[1])
    tracker.log_report(report, reports[1], cached=False)
    tracker.log_report(reports[0][1], reports[1], cached=False)
    tracker.finish()
    run = client(store).get_run(tracker.run_id)
    assert run.data.tags["findings"] == "train: batch-dependent"
    assert (run.data.metrics["train/warnings"], run.data.metrics["train/errors"], run.data.metrics["benchmark/warnings"]) == (1, 0, 0)
    page = run.data.tags["mlflow.note.content"]
    assert "| train | passed, 1 warning |" in page
    assert "* train: **warning** `batch-dependent`: padding counts at model.py:3. mask it" in page
    assert "no-float64" not in page


def test_every_candidate_is_a_child_run_with_the_same_keys(start, store, reports):
    tracker = start(store)
    tracker.log_report(reports[0][1], reports[1], cached=False)
    tracker.finish()
    found = children(store, tracker.run_id)
    assert set(found) == {"eager", "onnxruntime", "paddle"}
    assert set(found["eager"].data.metrics) | GAIN == set(found["onnxruntime"].data.metrics) == FIGURES
    assert found["onnxruntime"].data.params["variant"] == "onnxruntime"
    assert {run.info.run_name for run in found.values()} == {
        "epochs=3, eager",
        "epochs=3, onnxruntime",
        "epochs=3, paddle",
    }
    assert found["paddle"].info.status == "FAILED"
    assert found["paddle"].data.tags["reason"] == "died of SIGSEGV"


def test_the_row_of_a_winner_has_its_verdict_and_figures_in_full(start, store, tmp_path):
    tracker = logged(start(store), tmp_path / "reports", *made.reports(accuracy=0.8396, p50=0.0205, size=252e6))
    winner = children(store, tracker.run_id)["onnxruntime"].data
    shown = {key: winner.tags[key] for key in ("score", "speedup", "size", "verdict")}
    assert shown == {
        "score": "0.8396 (0.8227 to 0.8553)",
        "speedup": "7.50× (6.75 to 8.25)",
        "size": "252\N{NO-BREAK SPACE}MB image",
        "verdict": "✓ passed",
    }
    assert (winner.metrics["p50_us"], winner.metrics["score"]) == (20.5, 0.8396)


@pytest.mark.parametrize(
    ("changed", "verdicts"),
    [
        ({"valid": False}, {"onnxruntime": "⚠ speed not valid", "paddle": "⚠ speed not valid"}),
        ({"wrong": 3}, {"onnxruntime": "✗ failed at accept", "paddle": "measured"}),
        ({}, {"onnxruntime": "✓ passed", "paddle": "measured"}),
    ],
)
def test_a_verdict_is_in_a_column_and_not_in_the_name(start, store, tmp_path, changed, verdicts):
    tracker = logged(start(store), tmp_path / "reports", *made.reports(**changed))
    found = children(store, tracker.run_id)
    assert {name: run.data.tags["verdict"] for name, run in found.items()} == verdicts
    assert {run.info.run_name for run in found.values()} == {"epochs=3, onnxruntime", "epochs=3, paddle"}


def test_a_name_that_does_not_fit_the_column_gives_way_to_the_model(start, store, reports):
    tracker = start(store)
    tracker._facts["tags"]["mlflow.runName"] = "reviews: width=64, epochs=3, learning_rate=0.001 (9f31c2)"
    tracker = logged(tracker, reports[1], reports[0][1])
    assert {run.info.run_name for run in children(store, tracker.run_id).values()} == {
        "reviews, eager", "reviews, onnxruntime", "reviews, paddle"
    }  # fmt: skip


def logged(tracker, folder, *reports):
    """The same tracker after a run with these reports."""
    for report in reports:
        report.write(folder)
        tracker.log_report(report, folder, cached=False)
    tracker.finish()
    return tracker


def proof(reports, **row):
    """The report of a `verify` before the benchmark."""
    return reports[0].model_copy(update={"stage": "verify", "candidates": {"onnxruntime": {"status": "proven", **row}}})


def test_where_stages_disagree_about_a_candidate_the_later_one_counts(start, store, reports):
    (made, folder) = reports
    tracker = logged(start(store), folder, proof(made, runtime="another", precision="int8", p50_ms=2.0), made[1])
    found = children(store, tracker.run_id)["onnxruntime"].data
    assert (found.params["runtime"], found.params["precision"]) == ("onnxruntime", "int8")
    assert (found.metrics["p50_ms"], found.tags["status"]) == (1.0, "measured")
    assert tracker.undelivered is None


def test_mlflow_compares_candidates_by_speedup_and_by_the_params_that_made_the_model(start, store, reports):
    """Its page takes the metric that it got first, and the params that differ."""
    (made, folder) = reports
    rows = {
        name: {key: value for key, value in row.items() if key not in GAIN} | {"speedup_low": 2.0, "speedup_high": 4.0, "speedup": 3.0}
        for name, row in made[1].candidates.items()
    }
    measured = made[1].model_copy(update={"candidates": rows, "facts": made[1].facts | {"benchmark_valid": False}})
    tracker = logged(start(store), folder, proof(made, image_bytes=7, metric=0.9), measured)
    found = children(store, tracker.run_id)["onnxruntime"].data
    assert list(found.metrics)[:3] == ["speedup", "p50_us", "noise_ratio"]
    assert set(found.metrics) == {*FIGURES, "added_image_bytes", "proof_score"}
    assert found.tags["benchmark_valid"] == "False"
    assert (found.params["train.epochs"], found.params["model.kwargs.width"], found.params["seed"]) == ("8", "16", "7")
    assert not [key for key in found.params if key.startswith(("benchmark.", "paths."))]


def test_a_description_has_the_stages_in_their_order_whenever_they_ran(start, store, reports):
    (train, benchmark), folder = reports
    trained_again = train.model_copy(update={"started_at": benchmark.started_at + timedelta(hours=1)})
    tracker = logged(start(store), folder, benchmark, trained_again)
    said = client(store).get_run(tracker.run_id).data.tags["mlflow.note.content"]
    assert said.startswith("**Not proven: the reports of prepare, export, optimize, verify are missing.**")
    assert said.index("| train |") < said.index("| benchmark |")


def test_a_cached_stage_appears_in_the_new_run_with_its_curve(start, store, reports):
    tracker = start(store)
    tracker.log_report(reports[0][0], reports[1], cached=True)
    tracker.finish()
    run = client(store).get_run(tracker.run_id)
    assert run.data.metrics["train/test_accuracy"] == 0.9
    assert run.data.tags["stages_cached"] == "train"
    assert [point.value for point in client(store).get_metric_history(tracker.run_id, "epoch/loss")] == [2.0, 1.0]


def test_a_failed_run_is_marked_with_its_reason(start, store, reports):
    tracker = start(store)
    tracker.finish(GateFailed("train: validation_accuracy is 0.5 (limit 0.9)"))
    run = client(store).get_run(tracker.run_id)
    assert run.info.status == "FAILED"
    assert "limit 0.9" in run.data.tags["failure"]
    assert run.data.tags["reason"] == "GateFailed"
    assert run.data.tags["mlflow.note.content"].startswith("**Failed: train")


def test_live_metrics_go_into_the_run_and_never_end_it(start, store, monkeypatch):
    tracker = start(store)
    monkeypatch.setenv("MLFLOW_RUN_ID", tracker.run_id)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    log = live_metrics()
    log({"loss": 2.0}, 0)
    log({"loss": 1.0}, 1)
    assert client(store).get_run(tracker.run_id).info.status == "RUNNING"
    assert [point.step for point in client(store).get_metric_history(tracker.run_id, "epoch/loss")] == [0, 1]
    tracker.finish()


def test_live_metrics_without_a_run_or_a_server_disturb_nothing(monkeypatch, capsys):
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    assert live_metrics() is None
    monkeypatch.setenv("MLFLOW_RUN_ID", "x")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    log = live_metrics()
    log({"loss": 2.0}, 0)
    log({"loss": 1.0}, 1)
    assert capsys.readouterr().err.count("warning") == 1


def test_an_unchanged_run_points_to_the_candidates_of_the_run_that_measured_them(start, store, reports):
    first = start(store)
    first.log_report(reports[0][1], reports[1], cached=False)
    first.finish()
    again = start(store)
    again.log_report(reports[0][1], reports[1], cached=True)
    again.finish()
    assert not children(store, again.run_id)
    run = client(store).get_run(again.run_id)
    assert run.data.tags["candidates_of"] == first.run_id
    assert f"mlflow.parentRunId%60%20%3D%20%27{first.run_id}" in run.data.tags["mlflow.note.content"]
    assert "candidates_of" not in client(store).get_run(first.run_id).data.tags


def test_a_run_that_proved_again_what_another_one_measured_points_to_that_one(start, store, reports):
    folder = reports[1]
    verify = reports[0][1].model_copy(update={"stage": "verify", "candidates": {"onnxruntime": {"metric": 0.8, "status": "proven"}}})
    found = []
    for minute, cached in ((0, False), (5, True)):
        verify.started_at = reports[0][0].started_at.replace(minute=minute)
        verify.write(folder)
        tracker = start(store)
        tracker.log_report(verify, folder, cached=False)
        tracker.log_report(reports[0][1], folder, cached=cached)
        tracker.finish()
        found.append(tracker.run_id)
    first, again = found
    assert not children(store, again)
    assert client(store).get_run(again).data.tags["candidates_of"] == first
    assert set(children(store, first)) == {"eager", "onnxruntime", "paddle"}


def test_candidates_that_no_run_of_this_server_has_are_sent_though_nothing_ran(start, store, reports):
    tracker = start(store)
    tracker.log_report(reports[0][1], reports[1], cached=True)
    tracker.finish()
    assert set(children(store, tracker.run_id)) == {"eager", "onnxruntime", "paddle"}


def test_a_run_that_measured_anew_has_what_unchanged_stages_said_of_its_candidates(start, store, reports):
    tracker, folder = start(store), reports[1]
    verify = reports[0][1].model_copy(update={"stage": "verify", "candidates": {"onnxruntime": {"metric": 0.8, "status": "proven"}}})
    verify.started_at = reports[0][0].started_at
    verify.write(folder)
    tracker.log_report(reports[0][0], folder, cached=True)
    tracker.log_report(verify, folder, cached=True)
    tracker.log_report(reports[0][1], folder, cached=False)
    tracker.finish()
    found = children(store, tracker.run_id)["onnxruntime"].data
    assert (found.metrics["proof_score"], found.metrics["p50_ms"], found.tags["status"]) == (0.8, 1.0, "measured")
    assert found.metrics["test_score"] == 0.9


def test_the_page_of_a_report_is_not_read_as_a_report(start, store, reports):
    (train, _), folder = reports
    (folder / "package").mkdir()
    (folder / "package/sbom.cdx.json").write_text('{"bomFormat": "CycloneDX"}')
    packed = train.model_copy(update={"stage": "package", "facts": {"page": "package/sbom.cdx.json"}})
    tracker = logged(start(store), folder, train, packed)
    (run,) = [run for run in runs.find(store) if run.run_id == tracker.run_id]
    assert [report.stage for report in runs.reports(store, run)] == ["train", "package"]
