"""A server that goes away, or was never there: nothing is lost, and nothing comes twice."""

import gc
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from contextlib import closing
from pathlib import Path

import pytest

from paddleship.errors import BadInput, Cancelled, GateFailed, PaddleshipError, Unavailable
from paddleship.tracking import client as client_module
from paddleship.tracking import run, sending, spool
from paddleship.tracking.run import close_dead_runs, deliver
from tests.tasks.tracking.helpers import children, client, runs

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def server(tmp_path, mlflow_db):
    """A real tracking server, and how to end it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"

    shutil.copy(mlflow_db, tmp_path / "server.db")

    def run():
        command = [str(Path(sys.executable).parent / "mlflow"), "server", "--port", str(port), "--workers", "1"]
        command += ["--backend-store-uri", f"sqlite:///{tmp_path / 'server.db'}", "--artifacts-destination", str(tmp_path / "server")]
        environment = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{url}/health", timeout=60).close()  # noqa: S310 an address on loopback
                return process
            except OSError:
                time.sleep(0.1)
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
    assert f"/runs/{tracker.run_id}?" in tracker.url
    end()
    tracker.log_report(reports[0][1], reports[1], cached=False)
    tracker.finish()
    assert "`paddleship deliver`" in capsys.readouterr().err
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
    tracker.finish(GateFailed("gate"))
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


def ending(store, run_id):
    run = client(store).get_run(run_id)
    return run.info.status, run.data.tags.get("reason")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, ("FINISHED", None)),
        (GateFailed("x is 3"), ("FAILED", "GateFailed")),
        (BadInput("no rows"), ("FAILED", "BadInput")),
        (Unavailable("no engine"), ("FAILED", "Unavailable")),
        (Cancelled("all variants"), ("KILLED", "Cancelled")),
        (PaddleshipError("x"), ("FAILED", "Defect")),
    ],
)
def test_a_run_says_why_it_ended(start, store, error, expected):
    tracker = start(store)
    tracker.finish(error)
    assert ending(store, tracker.run_id) == expected


@pytest.mark.parametrize(("error", "expected"), [(KeyboardInterrupt(), ("KILLED", "Cancelled")), (ValueError(), ("FAILED", "Defect"))])
def test_who_ended_a_run_by_an_exception_is_told(start, store, error, expected):
    tracker = start(store)
    tracker.stop(error)
    assert ending(store, tracker.run_id) == expected


def test_a_run_of_a_living_process_is_never_buried_and_one_that_waits_for_mlflow_keeps_its_end(start, store, tmp_path):
    living, waiting = start(store), start("http://127.0.0.1:9")
    waiting.finish(GateFailed("x is 3"))
    assert close_dead_runs(tmp_path / "spool", tracking_uri=store) == []
    assert client(store).get_run(living.run_id).info.status == "RUNNING"
    (run_id,) = deliver(tmp_path / "spool", tracking_uri=store)
    assert ending(store, run_id) == ("FAILED", "GateFailed")
    living.finish()


class Dead(BaseException):
    """In the place of a kill: nothing after it runs."""


def dies(*_arguments, **_more):
    raise Dead


def test_a_run_that_was_killed_between_its_end_and_mlflow_gets_that_end_from_the_next_command(start, store, tmp_path, monkeypatch):
    tracker = start(store)
    with monkeypatch.context() as patch:
        patch.setattr(run, "close_run", dies)
        with pytest.raises(Dead):
            tracker.finish(GateFailed("x is 3"))
    tracker._lock.lock.release()
    assert client(store).get_run(tracker.run_id).info.status == "RUNNING"
    assert close_dead_runs(tmp_path / "spool", tracking_uri=store) == [], "it was not killed before its end"
    assert ending(store, tracker.run_id) == ("FAILED", "GateFailed")
    assert list((tmp_path / "spool").glob("*/run.json")) == []


def test_a_run_that_was_killed_while_it_was_created_is_one_run(start, store, tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(spool, "write", dies)
        with pytest.raises(Dead):
            start(store)
    gc.collect()  # the lock of the dead one
    (run_id,) = close_dead_runs(tmp_path / "spool", tracking_uri=store)
    assert ending(store, run_id) == ("KILLED", "Killed")
    experiments = [one.experiment_id for one in client(store).search_experiments()]
    assert [one.info.run_id for one in client(store).search_runs(experiments)] == [run_id]


@pytest.mark.long  # who lives is asked in paddleship/system/test_processes, a killed run is buried in flows/test_pipeline
def test_a_run_whose_process_was_killed_is_buried_in_another_pid_namespace_and_a_living_one_is_not(store, tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from paddleship.config import loading; from paddleship.tracking.run import Tracker; "
        "tracker = Tracker.start(loading.load(Path('params.yaml')), tracking_uri=sys.argv[1], "
        "artifact_root='file://' + sys.argv[2], spool=Path(sys.argv[2]), tags={}); print(tracker.run_id, flush=True); time.sleep(600)"
    )
    closing = (
        "import sys; from pathlib import Path; from paddleship.tracking.run import close_dead_runs; "
        "print(*close_dead_runs(Path(sys.argv[2]), tracking_uri=sys.argv[1]))"
    )
    arguments = [store, str(tmp_path / "spool")]
    elsewhere = ["unshare", "--pid", "--fork", sys.executable, "-c", closing, *arguments]
    with subprocess.Popen([sys.executable, "-c", code, *arguments], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        run_id = process.stdout.readline().strip()
        done = subprocess.run(elsewhere, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        if "unshare" in done.stderr:
            process.kill()
            pytest.skip(done.stderr.strip())
        assert done.stdout.split() == []
        process.kill()
    done = subprocess.run(elsewhere, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [run_id]
    assert ending(store, run_id) == ("KILLED", "Killed")


def test_the_run_of_a_killed_process_is_delivered_without_doubling_what_came_live(store, reports, tmp_path):
    code = """
import os, signal, sys
from pathlib import Path
from paddleship.config import loading
from paddleship.reports.report import Report
from paddleship.tracking.live import live_metrics
from paddleship.tracking.run import Tracker

_, store, spool, reports = sys.argv
root = Path(spool).with_name("artifacts").as_uri()
tracker = Tracker.start(loading.load(Path("params.yaml")), tracking_uri=store, artifact_root=root, spool=Path(spool), tags={})
os.environ.update(MLFLOW_RUN_ID=tracker.run_id, MLFLOW_TRACKING_URI=store)
live_metrics()({"loss": 2.0}, 0)
tracker.log_report(Report.read(Path(reports), "train"), Path(reports), cached=False)
os.kill(os.getpid(), signal.SIGKILL)
"""
    command = [sys.executable, "-c", code, store, str(tmp_path / "spool"), str(reports[1])]
    assert subprocess.run(command, cwd=REPOSITORY, check=False).returncode == -signal.SIGKILL
    (run_id,) = deliver(tmp_path / "spool", tracking_uri=store)
    assert ending(store, run_id) == ("KILLED", "Killed")
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
    with pytest.raises(Unavailable, match=rf"^1 runs were delivered, 1 were not; {broken.undelivered.name} is kept: .*is damaged"):
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


def test_first_runs_that_start_together_share_one_new_database(tmp_path, warm_commands):
    store = f"sqlite:///{tmp_path / 'new.db'}"
    command = [sys.executable, "-m", "tests.tasks.tracking.start_a_run", store, str(tmp_path / "spool")]
    started = [subprocess.Popen(command, cwd=REPOSITORY) for _ in range(3)]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert len(runs(store)) == 3


def test_getting_ready_creates_the_tables_and_leaves_errors_to_the_first_call(tmp_path):
    sending.get_ready(f"sqlite:///{tmp_path / 'new.db'}")
    with closing(sqlite3.connect(tmp_path / "new.db")) as database:
        assert database.execute("select count(*) from runs").fetchone() == (0,)
    (tmp_path / "file").touch()
    sending.get_ready(f"sqlite:///{tmp_path}/file/new.db")
    sending.get_ready("no-such-kind://of-store")


@pytest.fixture
def deleted(start, store):
    """A store whose experiment `reviews` was deleted after a run, and its id."""
    start(store).finish()
    mlflow = client(store)
    experiment = mlflow.get_experiment_by_name("reviews").experiment_id
    mlflow.delete_experiment(experiment)
    return store, experiment


def test_a_deleted_experiment_is_named_with_the_command_that_restores_it(start, deleted, tmp_path, capsys):
    store, experiment = deleted
    tracker = start(store)
    tracker.finish()
    way = f"the experiment 'reviews' of MLflow was deleted: restore it with `MLFLOW_TRACKING_URI={store} mlflow experiments restore -x"
    said = capsys.readouterr().err
    assert f"{way} {experiment}`" in said
    assert "does not answer" not in said
    with pytest.raises(Unavailable) as refused:
        deliver(tmp_path / "spool", tracking_uri=store)
    assert way in str(refused.value)
    assert "does not answer" not in str(refused.value)
    client(store).restore_experiment(experiment)
    assert len(deliver(tmp_path / "spool", tracking_uri=store)) == 1, "nothing of the run was lost"


def test_an_mlflow_that_refuses_a_request_is_not_called_silent(store):
    with pytest.raises(Unavailable, match="refused a request") as refused, client_module.reached(store):
        client(store).get_run("0" * 32)
    assert "make ui" not in str(refused.value)
