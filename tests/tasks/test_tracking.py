"""Tracking against a real MLflow: SQLite alone, and a server that goes away in the middle."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from paddleship.candidate import Candidate
from paddleship.errors import Unavailable
from paddleship.report import Report
from paddleship.spec import TensorSpec
from paddleship.verdict import Check, Verdict
from tasks.tracking.live import live_metrics
from tasks.tracking.run import Tracker, deliver

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def reports(tmp_path):
    """Two reports on disk as stages leave them: a training with its curve, a benchmark with a picture and a failed candidate."""
    folder = tmp_path / "reports"
    passed = Verdict(checks=[Check.at_least("x", 1, 1)])
    row = {"p50_ms": 1.0, "noise_ratio": 0.9, "status": "measured", "reason": "", "runtime": "onnxruntime"}
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
            metrics={"speedup": 3.0, "speedup_low": 2.0, "speedup_high": 4.0},
            verdict=passed,
            candidates={
                "eager": row | {"p50_ms": 3.0},
                "onnxruntime": row | {"winner": True},
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
def store(tmp_path):
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


@pytest.fixture
def start(reviews_params, tmp_path):
    def make(uri):
        tags = {"mlflow.runName": "a run", "git_commit": "c0ffee"}
        return Tracker.start(
            reviews_params(), tracking_uri=uri, artifact_root=(tmp_path / "artifacts").as_uri(), spool=tmp_path / "spool", tags=tags
        )

    return make


def client(uri):
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


def runs(uri, query=""):
    api = client(uri)
    experiment = api.get_experiment_by_name("reviews")
    return api.search_runs([experiment.experiment_id], query)


def children(uri, run_id):
    return {run.data.tags["variant"]: run for run in runs(uri, f"tags.`mlflow.parentRunId` = '{run_id}'")}


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
    assert "Winner: **onnxruntime**, 3.0× eager" in page
    assert page.index("| **onnxruntime** |") < page.index("| eager |")
    artifacts = {item.path for folder in ("reports", "pictures/benchmark") for item in client(store).list_artifacts(tracker.run_id, folder)}
    assert artifacts == {"reports/train.json", "reports/benchmark.json", "pictures/benchmark/latency.png"}
    assert tracker.undelivered is None
    assert not list((tmp_path / "spool").iterdir())


def test_every_candidate_is_a_child_run_with_the_same_keys(start, store, reports):
    tracker = start(store)
    tracker.log_report(reports[0][1], reports[1], cached=False)
    tracker.finish()
    found = children(store, tracker.run_id)
    assert set(found) == {"eager", "onnxruntime", "paddle"}
    assert set(found["eager"].data.metrics) == set(found["onnxruntime"].data.metrics) == {"p50_ms", "noise_ratio"}
    assert found["onnxruntime"].data.params["variant"] == "onnxruntime"
    assert found["paddle"].info.status == "FAILED"
    assert found["paddle"].data.tags["reason"] == "died of SIGSEGV"


def test_stages_that_disagree_about_a_candidate_do_not_stop_the_run(start, store, reports):
    tracker, first = start(store), reports[0][1]
    tracker.log_report(first, reports[1], cached=False)
    other = first.model_copy(update={"candidates": {"onnxruntime": {"runtime": "another", "precision": "int8", "p50_ms": 2.0}}})
    tracker.log_report(other, reports[1], cached=False)
    tracker.finish()
    found = children(store, tracker.run_id)["onnxruntime"].data
    assert (found.params["runtime"], found.params["precision"]) == ("onnxruntime", "int8")
    assert found.metrics["p50_ms"] == 2.0
    assert tracker.undelivered is None


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
    tracker.finish(failure="train: validation_accuracy is 0.5 (limit 0.9)")
    run = client(store).get_run(tracker.run_id)
    assert run.info.status == "FAILED"
    assert "limit 0.9" in run.data.tags["failure"]
    assert run.data.tags["mlflow.note.content"].startswith("**Failed**: train")


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


@pytest.fixture
def server(tmp_path):
    """A real tracking server, and how to end it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"

    def run():
        command = [str(Path(sys.executable).parent / "mlflow"), "server", "--port", str(port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{tmp_path / 'server.db'}", "--artifacts-destination", str(tmp_path / "server")]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=1).close()  # noqa: S310 an address on loopback
                return process
            except OSError:
                continue
        raise AssertionError("no server")

    def end(process):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    process = run()
    state = {"process": process}
    yield url, lambda: end(state["process"]), lambda: state.update(process=run())
    if state["process"].poll() is None:
        end(state["process"])


def test_a_server_that_goes_away_loses_nothing_and_delivers_once(start, server, reports, tmp_path, capsys):
    url, end, begin_again = server
    tracker = start(url)
    tracker.log_report(reports[0][0], reports[1], cached=False)
    assert tracker.url.endswith(f"/runs/{tracker.run_id}")
    end()
    tracker.log_report(reports[0][1], reports[1], cached=False)
    tracker.finish()
    assert "the work goes on, the evidence is kept" in capsys.readouterr().err
    assert tracker.undelivered
    with pytest.raises(Unavailable, match="paddleship deliver"):
        deliver(tmp_path / "spool", tracking_uri=url)
    begin_again()
    assert deliver(tmp_path / "spool", tracking_uri=url) == [tracker.run_id]
    run = client(url).get_run(tracker.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["benchmark/speedup"] == 3.0
    assert set(children(url, tracker.run_id)) == {"eager", "onnxruntime", "paddle"}
    assert deliver(tmp_path / "spool", tracking_uri=url) == []


def test_a_server_that_was_never_there_gets_a_whole_run_later(start, store, reports, tmp_path):
    tracker = start("http://127.0.0.1:9")
    assert tracker.run_id is None
    tracker.log_report(reports[0][0], reports[1], cached=False)
    tracker.finish(failure="gate")
    (run_id,) = deliver(tmp_path / "spool", tracking_uri=store)
    run = client(store).get_run(run_id)
    assert run.info.status == "FAILED"
    assert run.data.metrics["train/test_accuracy"] == 0.9


def test_deliver_leaves_a_run_that_still_goes_on_alone(start, store, reports, tmp_path):
    tracker = start(store)
    assert deliver(tmp_path / "spool", tracking_uri=store) == []
    tracker.log_report(reports[0][0], reports[1], cached=False)
    tracker.finish()
    assert client(store).get_run(tracker.run_id).info.status == "FINISHED"


def test_the_run_of_a_killed_process_is_delivered_without_doubling_what_came_live(store, reports, tmp_path):
    code = """
import os, signal, sys
from pathlib import Path
from paddleship import params
from paddleship.report import Report
from tasks.tracking.live import live_metrics
from tasks.tracking.run import Tracker

_, store, spool, reports = sys.argv
root = Path(spool).with_name("artifacts").as_uri()
tracker = Tracker.start(params.load(Path("params.yaml")), tracking_uri=store, artifact_root=root, spool=Path(spool), tags={})
os.environ.update(MLFLOW_RUN_ID=tracker.run_id, MLFLOW_TRACKING_URI=store)
live_metrics()({"loss": 2.0}, 0)
tracker.log_report(Report.read(Path(reports), "train"), Path(reports), cached=False)
os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-c", code, store, str(tmp_path / "spool"), str(reports[1])]
    assert subprocess.run(command, cwd=REPOSITORY, check=False).returncode == -signal.SIGKILL
    (run_id,) = deliver(tmp_path / "spool", tracking_uri=store)
    assert client(store).get_run(run_id).info.status == "FAILED"
    points = client(store).get_metric_history(run_id, "epoch/loss")
    assert sorted((point.step, point.value) for point in points) == [(0, 2.0), (1, 1.0)]


def test_a_curve_with_nan_in_it_is_delivered_without_that_point(start, store, reports, tmp_path):
    report = reports[0][0]
    report.facts = {"history": [{"loss": 2.0}, {"loss": float("nan")}]}
    report.write(reports[1])
    tracker = start("http://127.0.0.1:9")
    tracker.log_report(report, reports[1], cached=False)
    tracker.finish()
    (run_id,) = deliver(tmp_path / "spool", tracking_uri=store)
    assert [point.value for point in client(store).get_metric_history(run_id, "epoch/loss")] == [2.0]


def test_one_entry_that_cannot_be_delivered_does_not_hold_up_the_others(start, store, tmp_path):
    broken, whole = start("http://127.0.0.1:9"), start("http://127.0.0.1:9")
    broken.finish()
    whole.finish()
    (broken.undelivered / "run.json").write_text("{")
    with pytest.raises(Unavailable, match=rf"{broken.undelivered.name} .*\(1 delivered\)"):
        deliver(tmp_path / "spool", tracking_uri=store)
    assert whole.undelivered is None
    assert len(runs(store)) == 1


def test_evidence_that_cannot_be_kept_never_stops_the_work(start, store, reports, tmp_path, capsys):
    tracker = start(store)
    report = reports[0][1]
    report.pictures = ["benchmark/none.png"]
    tracker.log_report(report, reports[1], cached=False)
    assert tracker.register(tmp_path / "none", tmp_path / "none.json") is None
    tracker.log_report(reports[0][0], reports[1], cached=False)
    tracker.finish()
    assert capsys.readouterr().err.count("cannot be kept") == 1
    run = client(store).get_run(tracker.run_id)
    assert run.info.status == "FINISHED"
    assert run.data.metrics["train/test_accuracy"] == 0.9


def test_a_spool_that_cannot_be_written_never_stops_the_work(start, store, reports, tmp_path):
    (tmp_path / "spool").write_text("a file where a folder should be")
    tracker = start(store)
    tracker.log_report(reports[0][0], reports[1], cached=False)
    tracker.finish()
    assert tracker.run_id is None
    assert tracker.undelivered is None


def test_first_runs_that_start_together_share_one_new_database(store, tmp_path):
    code = (
        "import sys; from pathlib import Path; from paddleship import params; from tasks.tracking.run import Tracker; "
        "tracker = Tracker.start(params.load(Path('params.yaml')), tracking_uri=sys.argv[1], "
        "artifact_root='file://' + sys.argv[2], spool=Path(sys.argv[2]), tags={}); "
        "tracker.finish(); sys.exit(tracker.undelivered is not None)"
    )
    started = [subprocess.Popen([sys.executable, "-c", code, store, str(tmp_path / "spool")], cwd=REPOSITORY) for _ in range(3)]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert len(runs(store)) == 3


@pytest.fixture
def winner(tmp_path):
    """A candidate of two inputs that adds them, and the release that names it."""
    import onnx
    from onnx import TensorProto, helper

    folder = tmp_path / "winner"
    folder.mkdir()
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 2]) for name in ("a", "b", "total")]
    graph = helper.make_graph([helper.make_node("Add", ["a", "b"], ["total"])], "model", values[:2], values[2:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    a, b, total = (TensorSpec(name, "float32", ("batch", 2)) for name in ("a", "b", "total"))
    facts = {"preprocess": {"kind": "tensors"}, "weights_sha256": "0" * 64, "task": "classification", "sources": {"total": 0}}
    candidate = Candidate(
        name="onnxruntime",
        model="reviews",
        runtime="onnxruntime",
        precision="float32",
        threads=1,
        inputs=(a, b),
        outputs=(total,),
        classes=("left", "right"),
        **facts,
    ).save(folder)
    release = tmp_path / "release.json"
    names = ("candidate", "image", "image_id", "git_commit", "data_sha256")
    release.write_text(
        json.dumps({"model": "reviews", "runtime": "onnxruntime", "candidate_digest": candidate.digest} | dict.fromkeys(names, "x"))
    )
    return folder, release


def register(start, store, winner):
    tracker = start(store)
    version = tracker.register(*winner)
    tracker.finish()
    return version


def test_the_winner_is_registered_once_and_found_again(start, store, winner):
    assert register(start, store, winner) == "reviews version 1 (challenger)"
    assert register(start, store, winner) == "reviews version 1 (challenger)"
    assert client(store).get_model_version_by_alias("reviews", "challenger").tags["git_commit"] == "x"


def test_another_candidate_becomes_the_next_version(start, store, winner):
    register(start, store, winner)
    candidate = Candidate.load(winner[0])
    changed = Candidate(**{**candidate.__dict__, "threads": 2}).save(winner[0])
    release = json.loads(winner[1].read_text())
    winner[1].write_text(json.dumps(release | {"candidate_digest": changed.digest}))
    assert register(start, store, winner) == "reviews version 2 (challenger)"


def test_a_version_that_is_used_again_names_the_newest_image(start, store, winner):
    register(start, store, winner)
    release = json.loads(winner[1].read_text())
    winner[1].write_text(json.dumps(release | {"image": "reviews:2", "image_id": "sha256:2"}))
    register(start, store, winner)
    tags = client(store).get_model_version_by_alias("reviews", "challenger").tags
    assert (tags["image"], tags["image_id"]) == ("reviews:2", "sha256:2")


def test_a_version_says_what_goes_in_and_comes_out(start, store, winner):
    from mlflow.models import get_model_info

    register(start, store, winner)
    api = client(store)
    place = api.get_run(api.get_model_version("reviews", "1").run_id).info.artifact_uri
    info = get_model_info(f"{place.removeprefix('file://')}/model")
    assert info.signature.inputs.input_names() == ["a", "b"]
    assert info.signature.outputs.input_names() == ["total"]
    assert info.saved_input_example_info is not None


def test_a_registered_model_answers_without_this_project(start, store, winner, tmp_path):
    register(start, store, winner)
    code = (
        "import json, sys, mlflow, numpy as np; model = mlflow.pyfunc.load_model('models:/reviews@challenger'); "
        "answer = model.predict({'a': np.float32([[1, 2]]), 'b': np.float32([[3, 5]])}); "
        "import paddleship; print(json.dumps([answer['total'].tolist(), answer['label'], paddleship.__file__]))"
    )
    away = tmp_path / "away"
    away.mkdir()
    environment = {**os.environ, "MLFLOW_TRACKING_URI": store, "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}
    done = subprocess.run([sys.executable, "-c", code], cwd=away, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    total, label, origin = json.loads(done.stdout.splitlines()[-1])
    assert total == [[4.0, 7.0]]
    assert label == ["right"]
    assert not origin.startswith(str(Path(__file__).parents[2]))
    assert np.asarray(total).shape == (1, 2)
    shutil.rmtree(away)
