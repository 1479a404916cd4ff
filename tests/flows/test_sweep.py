"""`paddleship sweep` in a toy checkout: real Prefect, real DVC, real MLflow; variants that fail and hang on demand."""

import re
import shutil
import signal
import subprocess
import threading
from types import SimpleNamespace

import httpx
import psutil
import pytest
import yaml
from mlflow import MlflowClient
from prefect.states import Cancelled, Completed, Crashed, Failed

from flows import sweep as sweeping
from paddleship.config.sections.sweep import Sweep
from paddleship.errors import BadInput, GateFailed, PaddleshipError, Unavailable
from paddleship.execution import measurement_lock
from paddleship.orchestration import run_state, variants
from paddleship.reports.verdict import Check
from paddleship.sweep import choice
from paddleship.sweep.variant import Ended, Missed, Variant
from paddleship.tracking import runs as tracked
from tests.flows.helpers import PROGRAM, git, is_alive, started_by_commands, wait_for
from tests.paddleship.sweep import helpers

STAGE = """
import os, subprocess, sys, time
from datetime import UTC, datetime
from pathlib import Path

import yaml

from paddleship.reports.finding import Finding
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict

name, beside = sys.argv[1], Path(sys.argv[2])
epochs = yaml.safe_load(Path("params.yaml").read_text())["train"]["epochs"]
with (beside / "ran").open("a") as ran:
    ran.write(f"{name} {epochs}\\n")
if name == "benchmark" and (beside / f"hang at {epochs}").exists():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (beside / "pids").write_text(f"{os.getpid()} {child.pid}")
    child.wait()
poor = (beside / f"miss the gate at {epochs}").exists()
more = {"metrics": {"validation_accuracy": 0.8 + epochs / 50, "test_accuracy": 0.7}}
if name == "benchmark":
    speedup = {"speedup": 2.0, "speedup_low": 1.9, "speedup_high": 2.1}
    row = {"p50_ms": float(epochs), "noise_ratio": 1.0, "file_bytes": 100, "status": "measured", "winner": True, **speedup}
    facts = {"winner": "paddle", "reason": "it has the best p50_ms", "measured_on": "here", "benchmark_valid": True, "effect": 0.05}
    more = {"candidates": {"paddle": row}, "facts": facts, "metrics": {"p50_ms": row["p50_ms"], **speedup}}
    more["findings"] = [Finding("imprecise", "warning", "no core was free", "use more cores")]
verdict = Verdict(checks=[Check.at_most("loss", 3 if poor else 1, 2, advice="train longer")])
Path(f"{name}.txt").write_text(f"{epochs} epochs")
Report(stage=name, headline=name, verdict=verdict, started_at=datetime.now(UTC), **more).write(Path("reports"))
if poor:
    print("error: loss is 3 (limit 2): train longer", file=sys.stderr)
    sys.exit(3)
"""


def _stage(name, beside, *needs):
    outs = [f"{name}.txt", f"reports/{name}.json", f"reports/{name}.metrics.json"]
    return {"cmd": f"python stage.py {name} '{beside}'", "deps": ["stage.py", *needs], "outs": outs, "params": ["train"]}


@pytest.fixture
def swept(toy, environment):
    """Start `paddleship sweep` in a toy of two stages, with these epochs as its space."""
    beside = toy.parent
    graph = {"train": _stage("train", beside), "benchmark": _stage("benchmark", beside, "train.txt")}
    (toy / "dvc.yaml").write_text(yaml.safe_dump({"stages": graph}, sort_keys=False))
    (toy / "stage.py").write_text(STAGE)
    git(toy, "rm", "-rq", "--cached", "data")
    shutil.rmtree(toy / "data")
    git(toy, "commit", "-qam", "two stages")

    def start(*arguments, epochs=(1, 2, 3), path="train.epochs", **settings):
        (beside / "space.yaml").write_text(yaml.safe_dump({"sweep": {"space": {path: list(epochs)}, **settings}}))
        command = [PROGRAM, "sweep", "--params", str(beside / "space.yaml"), *arguments]
        return subprocess.Popen(command, cwd=toy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    return start


@pytest.fixture
def sweep(swept):
    """The same, to its end."""

    def run(*arguments, **more):
        process = swept(*arguments, **more)
        out, err = process.communicate(timeout=300)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return run


def ran(toy):
    """What the stages of all variants did, in order."""
    path = toy.parent / "ran"
    return path.read_text().splitlines() if path.exists() else []


def table(done):
    """Number → the cells of its row."""
    rows = [line.split() for line in done.stdout.splitlines() if "epochs=" in line]
    rows = [cells[1:] if cells[0] in "★·" else cells for cells in rows if len(cells) > 5]
    return {int(cells[0]): cells[1:] for cells in rows if cells[0].isdigit()}


def last_error(done):
    return [line for line in done.stderr.splitlines() if line.startswith("error: ")][-1]


def test_each_variant_is_a_run_of_its_own_and_a_failed_one_a_row_with_its_reason(toy, sweep, prefect_url):
    (toy.parent / "miss the gate at 2").touch()
    done = sweep(choose="latency")
    assert done.returncode == 0, done.stderr
    assert "Warning: imprecise: all variants: no core was free" in done.stdout
    (missed,) = Variant.model_validate_json(next(toy.glob(".paddleship/sweeps/*/002.json")).read_text()).ended.missed
    assert (missed.stage, missed.check.name, missed.check.measured, missed.check.limit) == ("train", "loss", 3, 2)
    rows = table(done)
    assert list(rows) == [1, 3, 2], "the chosen one first, the failed one last"
    assert rows[1][:2] == ["epochs=1", "done"]
    assert rows[2][:2] == ["epochs=2", "GateFailed:"]
    assert "loss is 3 (limit 2): train longer" in done.stdout
    assert "variant 1 (epochs=1) is chosen, with validation accuracy 0.8200 (test 0.7000), 1.00\xa0ms for a request" in done.stdout
    assert "paddleship run --params .paddleship/sweeps/" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert (toy / "params.yaml").read_text() == git(toy, "show", "HEAD:params.yaml"), "the checkout is not changed"
    assert not list((toy / ".paddleship/runs").iterdir()), "no worktree is left"
    _in_mlflow(toy)
    found = httpx.post(f"{prefect_url}/artifacts/filter", json={"artifacts": {"key": {"any_": ["sweep"]}}}).json()
    assert re.findall(r"^\* .*variant \d \((epochs=\d)\)", found[-1]["data"], re.MULTILINE) == ["epochs=1", "epochs=3", "epochs=2"]
    assert found[-1]["data"].count("(data:image/png;base64,") == 1
    again = sweep(choose="score", trials=5)
    assert again.returncode == 0, again.stderr
    assert len(ran(toy)) == 5, "no variant ran again"
    assert list(table(again)) == [3, 1, 2], "another rule chooses anew among the same variants"


def _in_mlflow(toy):
    """The sweep is one run; its variants are its children, and tagged like their candidates."""
    uri = f"sqlite:///{toy}/.paddleship/mlflow.db"
    runs = {run.name: run for run in tracked.find(uri)}
    (parent,) = [run for run in runs.values() if "sweep/variants" in run.metrics]
    children = [run for run in runs.values() if run.tags.get("mlflow.parentRunId") == parent.run_id]
    assert {run.tags["sweep_variant"] for run in children} == {"epochs=1", "epochs=2", "epochs=3"}
    assert {run.tags["sweep"] for run in children} == {parent.name}
    assert parent.metrics["sweep/variants_done"] == 2
    client = MlflowClient(uri)
    winners = client.search_runs([parent.experiment_id], f"tags.sweep = '{parent.name}' AND tags.winner = 'True'")
    assert {run.data.tags["sweep_variant"] for run in winners} == {"epochs=1", "epochs=3"}
    assert {item.path for item in client.list_artifacts(parent.run_id, "pictures/sweep")} == {"pictures/sweep/pareto.png"}
    assert any(tag.startswith(f"mlflow.sharedViewState.{parent.name}") for tag in client.get_experiment(parent.experiment_id).tags)
    tracked.delete(uri, parent)
    assert len([run for run in tracked.find(uri) if run.tags.get("sweep")]) == 3, "the variants of a deleted sweep stay"


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.long), pytest.param(signal.SIGINT, marks=pytest.mark.long)]
)
def test_a_sweep_that_is_ended_leaves_no_process_and_goes_on_where_it_was(toy, swept, sweep, prefect_url, number):
    beside = toy.parent
    (beside / "hang at 2").touch()
    process = swept(epochs=(2,))
    pids = [int(pid) for pid in wait_for(lambda: (beside / "pids").exists() and (beside / "pids").read_text()).split()]
    below = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    process.communicate(timeout=300)
    assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 130)
    wait_for(lambda: not any(is_alive(pid) for pid in (*pids, *(child.pid for child in below))))
    (beside / "hang at 2").unlink()
    dead = [run["id"] for run in started_by_commands(toy, prefect_url)]
    done = sweep(epochs=(2,))
    assert done.returncode == 0, done.stderr
    runs = [httpx.get(f"{prefect_url}/flow_runs/{run}").json() for run in dead]
    assert {run["state"]["type"] for run in runs} <= {"CRASHED", "CANCELLED"}
    assert len(runs) == 2, "the sweep and its variant"
    assert list(table(done)) == [1]
    assert ran(toy) == ["train 2", "benchmark 2", "benchmark 2"], "DVC restored what was finished"


@pytest.mark.parametrize(
    ("ends", "kind", "words"),
    [
        (["GateFailed", "BadInput", "BadInput"], BadInput, "none of 3 variants is done; BadInput: reason 2"),
        (["Unavailable"], Unavailable, "none of 1 variants is done; Unavailable: reason 1"),
        (["Killed", "Killed"], PaddleshipError, "none of 2 variants is done; Killed: reason 1"),
    ],
)
def test_a_sweep_without_a_variant_that_is_done_fails_for_the_most_frequent_reason(ends, kind, words):
    found = [helpers.failed(number, outcome, f"reason {number}") for number, outcome in enumerate(ends, 1)]
    failure = sweeping._failure(found, choice.choose({}, Sweep()))
    assert type(failure) is kind
    assert str(failure) == words


def test_a_sweep_whose_variants_all_missed_a_gate_says_how_near_they_came():
    missed = (Missed(stage="train", check=Check.at_least("validation_r2", 0.4, 0.8, advice="lower train.min_score")),)
    one = helpers.failed(1)
    variants = [one.model_copy(update={"ended": one.ended.model_copy(update={"missed": missed})}), helpers.failed(2)]
    failure = sweeping._failure(variants, choice.choose({}, Sweep(), missed={1: missed}))
    assert isinstance(failure, GateFailed)
    said = "train: validation_r2 is 0.4 (limit 0.8; variant 1): lower train.min_score, or widen sweep.space"
    assert str(failure) == f"none of 2 variants is done; GateFailed: {said}"


def test_a_sweep_whose_variants_are_beyond_the_limits_misses_a_gate_and_one_with_a_best_variant_does_not():
    variant = helpers.done(1, p50=2.0)
    failure = sweeping._failure([variant], choice.choose({1: variant.figures}, Sweep(max_p50_ms=1)))
    assert isinstance(failure, GateFailed)
    assert "p50 2 ms is above 1 ms" in str(failure)
    assert sweeping._failure([variant], choice.choose({1: variant.figures}, Sweep())) is None


def test_a_sweep_whose_variants_were_all_cancelled_ends_as_one_that_was():
    failure = sweeping._failure([helpers.failed(1, "Cancelled", "")], choice.choose({}, Sweep()))
    state = run_state.failed(failure)
    assert (state.type, run_state.exit_code(state)) == ("CANCELLED", 130)
    assert str(failure) == "none of 1 variants is done; Cancelled: start the same sweep again"


@pytest.mark.long
def test_a_sweep_of_which_every_variant_fails_ends_with_the_code_of_the_reason(toy, sweep):
    (toy.parent / "miss the gate at 2").touch()
    done = sweep(epochs=(2,))
    assert done.returncode == 3
    near = "train: loss is 3 (limit 2; variant 1): train longer, or widen sweep.space"
    assert last_error(done) == f"error: none of 1 variants is done; GateFailed: {near}"


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        ([], {"path": "train.epoch"}, "sweep.space names 'train.epoch', but the params have no 'epoch' there (did you mean 'epochs'?)"),
        (["--trials", "0"], {}, "space.yaml with the settings of this sweep: sweep.trials: must be greater than or equal to 1"),
        (["--method", "gird"], {}, "must be 'grid', 'random' or 'optuna' (got 'gird'; did you mean 'grid'?)"),
    ],
)
def test_a_space_or_an_option_that_does_not_fit_is_refused_before_anything_starts(toy, sweep, arguments, given, words):
    done = sweep(*arguments, **given)
    assert done.returncode == 2
    assert words in last_error(done)
    assert not (toy / ".paddleship/sweeps").exists()
    assert "Beginning flow run" not in done.stdout + done.stderr


class Prefect:
    """In place of paddleship.orchestration.deployment: runs that end in one state, and what was asked."""

    def __init__(self, state):
        self.state, self.asked = state, []

    def begin(self, name, given, *, run_name, tags):
        self.asked.append((name, given))
        return SimpleNamespace(id="f-1")

    def last_state(self, flow_run, *, say, give_up):
        self.asked.append(flow_run)
        return self.state

    def cancel(self, flow_run):
        self.asked.append(f"cancel {flow_run}")


class Shared:
    """In place of what all variants of a sweep share."""

    name, until, commit = "m-1", "benchmark", "c0ffee"

    def overlay_of(self, one):
        return one.values

    def run_name(self, one):
        return f"m-1 {one.number}"

    def done(self, one):
        return Ended(outcome="done")

    def failed(self, one, ended, *, since):
        return ended


@pytest.fixture
def pool(monkeypatch):
    """A deployment whose runs end in a state of choice, and what was asked of Prefect."""

    def make(state):
        prefect = Prefect(state)
        monkeypatch.setattr(variants, "deployment", prefect)
        return variants.Deployment(Shared(), "develop-to-deploy/local"), prefect.asked

    return make


def told(runner, one, **more):
    began = []
    return runner.run(one, say=lambda _: None, began=began.append, **more), began


def test_a_variant_of_a_deployment_is_a_flow_run_that_is_noted_before_it_is_followed(pool):
    runner, asked = pool(Completed())
    end, began = told(runner, Variant(number=1, values={"train.epochs": 2}))
    given = {"overrides": {"train.epochs": 2}, "commit": "c0ffee", "until": "benchmark", "register_model": False}
    assert (end.outcome, began, asked) == ("done", ["f-1"], [("develop-to-deploy/local", given), "f-1"])


def test_a_flow_run_that_was_begun_by_a_killed_sweep_is_followed_and_not_begun_again(pool):
    runner, asked = pool(Completed())
    end, began = told(runner, Variant(number=1, values={}, flow_run="f-0"))
    assert (end.outcome, began, asked) == ("done", [], ["f-0"])


@pytest.mark.parametrize("state", [Cancelled(), Crashed(), Failed(name="Unavailable")])
def test_a_flow_run_that_ended_with_an_earlier_command_is_begun_anew(pool, state):
    runner, asked = pool(state)
    _, began = told(runner, Variant(number=1, values={}, flow_run="f-0"))
    assert (began, asked[0], asked[-1]) == (["f-1"], "f-0", "f-1")


def test_a_server_that_does_not_answer_is_no_failure_of_the_variant(pool, monkeypatch):
    def refuse(_flow_run, **_more):
        raise ConnectionError("connection refused")

    runner, _ = pool(Completed())
    monkeypatch.setattr(variants.deployment, "last_state", refuse)
    with pytest.raises(Unavailable, match="Prefect does not answer"):
        told(runner, Variant(number=1, values={}, flow_run="f-0"))
    assert not Ended(outcome=Unavailable.outcome).is_final


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (Failed(name="GateFailed", message="x"), "GateFailed"),
        (Failed(name="BadInput", message="x"), "BadInput"),
        (Failed(message="x"), "Defect"),
        (Crashed(message="x"), "Killed"),
        (Cancelled(message="x"), "Cancelled"),
    ],
)
def test_the_state_of_a_flow_run_says_how_its_variant_ended(pool, state, outcome):
    assert told(pool(state)[0], Variant(number=1, values={}))[0].outcome == outcome


def test_a_cancelled_sweep_cancels_the_flow_runs_of_its_variants_and_begins_no_other(pool):
    runner, asked = pool(Completed())
    runner._running.add("f-9")
    runner.cancel()
    assert asked == ["cancel f-9"]
    assert told(runner, Variant(number=1, values={}))[0].outcome == "Cancelled"


def test_only_the_chosen_variant_is_registered(pool):
    runner, asked = pool(Completed())
    told(runner, Variant(number=1, values={}, flow_run="f-0"), register=True)
    assert asked[0][1]["register_model"] is True


def test_a_benchmark_waits_for_the_stages_of_other_variants_and_they_for_it(tmp_path, monkeypatch):
    monkeypatch.setenv(measurement_lock.VARIABLE, str(tmp_path / "lock"))
    events, benchmark_waits, measuring, measured = [], *(threading.Event() for _ in range(3))

    def measure():
        with measurement_lock.turn("benchmark", on_line=lambda _: benchmark_waits.set()):
            events.append("measured")
            measuring.set()
            measured.wait(300)

    def train_later():
        with measurement_lock.turn("train", on_line=events.append):
            events.append("trained later")

    with measurement_lock.turn("train", on_line=events.append), measurement_lock.turn("verify", on_line=events.append):
        threads = [threading.Thread(target=measure, daemon=True)]
        threads[0].start()
        assert benchmark_waits.wait(300)
        assert events == []
    assert measuring.wait(300)
    threads.append(threading.Thread(target=train_later, daemon=True))
    threads[1].start()
    wait_for(lambda: len(events) == 2)
    measured.set()
    for thread in threads:
        thread.join(300)
    assert events == ["measured", "train: waiting, because a variant is measured alone", "trained later"]


def test_other_runs_do_not_wait(monkeypatch):
    monkeypatch.delenv(measurement_lock.VARIABLE, raising=False)
    with measurement_lock.turn("benchmark", on_line=print), measurement_lock.turn("benchmark", on_line=print):
        pass
