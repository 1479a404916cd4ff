"""Stages in other work pools: workers in clones with caches of their own, which share a git remote and DVC's remote only."""

import platform
import signal
import subprocess

import psutil
import pytest
import yaml
from prefect.states import Completed

from flows import run_stages
from paddleship.errors import BadInput, GateFailed, OutOfTime, PaddleshipError, Unavailable
from paddleship.execution import failed_stage_reports, snapshots, stages, workspace
from paddleship.execution.stages import Stage, StageKilled
from paddleship.orchestration import run_state, stage_groups
from tests.flows.helpers import PREFECT, PROGRAM, git, how_it_went, is_alive, mlflow_runs, prefect_api, report_of, wait_for
from tests.flows.test_pipeline import clone, last_error, row_of

CACHE = ".dvc/cache/files/md5"


@pytest.fixture
def shared(toy):
    """The toy with a git remote."""
    git(toy.parent, "clone", "--quiet", "--bare", str(toy), "origin.git")
    git(toy, "remote", "add", "origin", str(toy.parent / "origin.git"))
    return toy


@pytest.fixture
def gpu(shared, environment):
    """A clone with a cache of its own, in which a worker of the pool `gpu` runs."""
    target = shared.parent / "gpu" / "clone"
    target.parent.mkdir()
    git(shared.parent, "clone", "--quiet", "origin.git", str(target))
    (target.parent / "paddleship-remote").symlink_to(shared.parent / "paddleship-remote")
    log = target.parent / "worker.log"
    with log.open("w") as stream:
        command = [PROGRAM, "worker", "--pool", "gpu", "--limit", "2"]
        ours = environment | {"PREFECT_HOME": str(target.parent / "prefect")}
        worker = subprocess.Popen(command, cwd=target, env=ours, stdout=stream, stderr=stream, start_new_session=True)
    try:
        wait_for(lambda: "started!" in log.read_text() or worker.poll() is not None)
        assert worker.poll() is None, log.read_text()
        yield target
    finally:
        worker.terminate()
        worker.wait(300)


def outs(lock):
    """Out → hash, as dvc.lock has them."""
    return {out["path"]: out["md5"] for stage in yaml.safe_load(lock)["stages"].values() for out in stage["outs"]}


def cached(root, digest):
    return (root / CACHE / digest[:2] / digest[2:]).exists()


def hanging_leg(clone):
    """The processes of a stage that hangs in the worktree of a leg."""
    return wait_for(lambda: [path.read_text().split() for path in clone.glob(".paddleship/runs/leg-*/pids") if path.read_text()])[0]


def flow_processes(clone):
    """The process that runs a leg in a clone, without its worker."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PREFECT__FLOW_RUN_ID") and str(clone) == process.environ().get("PADDLESHIP_CHECKOUT"):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.slow
def test_a_stage_runs_in_a_clone_of_another_pool_and_all_travels_by_the_two_remotes(shared, let, gpu, pipeline, environment, prefect_url):
    let("train", "warn")
    git(shared, "commit", "-qam", "what the clone of the worker does not have")
    done = pipeline("--on", "train=gpu")
    assert done.returncode == 0, done.stderr
    assert how_it_went(done) == {"fetch": "ran", "prepare": "ran", "train": "ran", "export": "ran"}
    assert row_of("train", done)[3:7] == [platform.node(), "(gpu)", "passed,", "1"], "its report came with it"
    assert mlflow_runs(shared) == [("FINISHED", None)]
    (kept,) = git(shared, "for-each-ref", "--format=%(refname)", "refs/exps").split()
    assert kept in git(shared.parent / "origin.git", "for-each-ref"), "every clone can fetch what the run kept"
    made = outs(git(shared, "show", f"{kept}:dvc.lock"))
    assert cached(gpu, made["reports/train.json"])
    assert not cached(gpu, made["reports/export.json"]), "the other machine has only what it read and made"
    for checkout in (shared, gpu):
        assert list((checkout / ".paddleship/runs").iterdir()) == [], "no worktree is left"
    for repository in (shared, gpu, shared.parent / "origin.git"):
        assert git(repository, "for-each-ref", "refs/paddleship") == ""
    (leg,) = prefect_api(prefect_url, "flow_runs/filter", {"work_pools": {"name": {"any_": ["gpu"]}}})
    assert leg["name"].endswith(": train"), "a leg is named after its own stages"
    assert leg["parent_task_run_id"], "it is shown below the run"
    replaced = subprocess.run(
        [PREFECT, "flow-run", "execute", leg["id"]], cwd=gpu, env=environment, capture_output=True, text=True, check=False
    )
    assert "this leg ended before (Completed), and its run went on without it: nothing is done" in replaced.stdout + replaced.stderr
    state = prefect_api(prefect_url, f"flow_runs/{leg['id']}")["state"]
    assert (state["type"], state["message"]) == ("COMPLETED", leg["state"]["message"]), "a pod that the cluster replaced changes nothing"
    pools = prefect_api(prefect_url, "work_pools/filter", {})
    assert [pool["type"] for pool in pools if pool["name"] == "gpu"] == ["process"], "its first worker created it"
    again = pipeline("--on", "train=gpu", "--again", "train")
    assert how_it_went(again) == {"fetch": "restored", "prepare": "restored", "train": "ran", "export": "restored"}, again.stderr


@pytest.mark.slow
@pytest.mark.long
def test_a_stage_that_fails_in_another_pool_ends_the_run_as_one_that_fails_here(shared, let, gpu, pipeline):
    for how, code, words, verdict in (
        ("miss the gate", 3, "score is 3 (limit 2): lower it", "failed"),
        ("find bad data", 2, "data.raw holds no rows: give some", "–"),
    ):
        let("train", how)
        git(shared, "commit", "-qam", how)
        done = pipeline("--on", "train=gpu", "--on", "export=gpu")
        assert done.returncode == code, done.stderr
        assert last_error(done) == f"error: {words}"
        assert (how_it_went(done)["train"], how_it_went(done)["export"]) == ("failed", "not run")
        assert row_of("train", done)[3:6] == [platform.node(), "(gpu)", verdict]
        assert mlflow_runs(shared)[-1] == ("FAILED", words)


@pytest.mark.slow
@pytest.mark.long
def test_a_leg_that_is_killed_is_started_again_and_goes_on_after_what_it_finished(shared, let, gpu, environment):
    marker = shared.parent / "killed"
    let("export", f"hang unless {marker}")
    git(shared, "commit", "-qam", "export hangs until it was killed")
    command = [PROGRAM, "run", "--until", "export", "--on", "train=gpu", "--on", "export=gpu"]
    with subprocess.Popen(command, cwd=shared, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        pids = hanging_leg(gpu)
        marker.touch()
        for flow in flow_processes(gpu):
            flow.kill()
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert "the worker of 'gpu' was lost in attempt 1 of 3: train are finished" in output
    assert not any(is_alive(int(pid)) for pid in pids)
    assert (gpu.parent / "worker.log").read_text().count("train at work") == 1, "it was finished, and handed back"
    assert (gpu.parent / "worker.log").read_text().count("export at work") == 2


@pytest.mark.slow
@pytest.mark.long
def test_a_leg_ends_with_the_run_that_started_it(shared, let, gpu, environment):
    let("train", "hang")
    git(shared, "commit", "-qam", "train hangs")
    command = [PROGRAM, "run", "--until", "export", "--on", "train=gpu"]
    with subprocess.Popen(command, cwd=shared, env=environment, start_new_session=True) as process:
        pids = hanging_leg(gpu)
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
    wait_for(lambda: not any(is_alive(int(pid)) for pid in pids))
    wait_for(lambda: not flow_processes(gpu))
    assert git(shared.parent / "origin.git", "for-each-ref", "refs/paddleship") == ""


@pytest.mark.slow
@pytest.mark.long
def test_at_its_time_limit_a_run_ends_its_leg_too(shared, let, gpu, environment):
    let("train", "hang")
    git(shared, "commit", "-qam", "train hangs")
    command = [PROGRAM, "run", "--until", "export", "--on", "train=gpu", "--timeout", "45"]
    with subprocess.Popen(command, cwd=shared, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        pids = hanging_leg(gpu)
        output, _ = process.communicate(timeout=300)
    assert process.returncode == 2, output
    assert "error: train in the pool 'gpu' was stopped: the time limit of this run, 45 s, is over" in output
    wait_for(lambda: not any(is_alive(int(pid)) for pid in pids))
    wait_for(lambda: not flow_processes(gpu))
    assert git(shared.parent / "origin.git", "for-each-ref", "refs/paddleship") == ""


def test_a_pool_that_no_worker_was_ever_started_for_is_told_before_anything_starts(shared, pipeline):
    done = pipeline("--on", "train=tpu")
    assert done.returncode == 2
    assert last_error(done).startswith("error: pools.train is 'tpu', and no worker of that pool was ever started with this Prefect server")
    assert "make worker POOL=tpu" in last_error(done)
    assert mlflow_runs(shared) == []
    assert not (shared / ".paddleship/runs").exists()


def test_a_stage_that_does_not_exist_is_told_with_the_one_that_is_meant(toy):
    with pytest.raises(BadInput, match=r"--on\) names 'trian', which is no stage: did you mean 'train'\?"):
        stage_groups.remote_pools({"trian": "gpu"}, until="accept", checkout=toy)
    assert stage_groups.remote_pools({"accept": "engine"}, until="train", checkout=toy) == {}, "this run does not come that far"


def test_consecutive_stages_of_one_pool_are_one_leg():
    graph = [Stage(name, name, ()) for name in ("fetch", "prepare", "train", "export", "optimize", "benchmark")]
    pools = {"train": "gpu", "export": "gpu", "benchmark": "target"}
    found = [(leg.pool, [stage.name for stage in leg.stages]) for leg in stage_groups.split(graph, pools)]
    assert found == [(None, ["fetch", "prepare"]), ("gpu", ["train", "export"]), (None, ["optimize"]), ("target", ["benchmark"])]


def test_a_machine_with_another_version_is_named_with_both():
    run_stages._require_versions(stage_groups.versions())
    with pytest.raises(Unavailable, match=rf"{platform.node()} has Paddle \S+, and the run was started with Paddle 2\.6\.2"):
        run_stages._require_versions(stage_groups.versions() | {"Paddle": "2.6.2"})


def test_a_clone_with_another_flow_is_refused_and_one_that_only_compiled_it_is_not(tmp_path, monkeypatch):
    (tmp_path / "legs.py").write_text("of the run\n")
    theirs = stage_groups._code(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/legs.cpython-311.pyc").write_bytes(b"of this machine")
    assert stage_groups._code(tmp_path) == theirs
    monkeypatch.setattr(run_stages.stage_groups, "_code", lambda *_folders: "0123456789ab")
    with pytest.raises(
        Unavailable, match=rf"has paddleship \S+ with flows 0123456789ab, and the run was started with paddleship .* {theirs}: give"
    ):
        run_stages._require_versions({"paddleship": f"0.1.0 with flows {theirs}"})
    monkeypatch.undo()
    (tmp_path / "legs.py").write_text("older\n")
    assert stage_groups._code(tmp_path) != theirs


def test_package_and_accept_need_the_same_engine():
    stage_groups.require_one_engine({"package": "engine", "accept": "engine", "train": "gpu"})
    stage_groups.require_one_engine({})
    with pytest.raises(BadInput, match=r"package runs in the pool 'engine' and accept here, .*: give both one pool"):
        stage_groups.require_one_engine({"package": "engine"})


@pytest.mark.parametrize("kind", [BadInput, GateFailed, Unavailable, OutOfTime, StageKilled, PaddleshipError])
def test_an_error_on_another_machine_ends_the_run_as_it_would_here(kind):
    error = run_state.error(run_state.failed(kind("train: its words")))
    assert (type(error), str(error), error.exit_code) == (kind, "train: its words", kind.exit_code)
    assert run_state.error(Completed()) is None


def test_what_a_failed_stage_reported_goes_to_another_clone_and_only_that(shared, let):
    let("prepare", "miss the gate")
    git(shared, "commit", "-qam", "a gate")
    git(shared, "push", "--quiet", "origin", "main")
    place = workspace.isolate(shared, "leg-1", {})
    (place.root / "data/raw").mkdir()
    (place.root / "data/raw/rows").write_text("rows\n")
    with pytest.raises(GateFailed):
        stages.run(place.root, Stage("prepare", "prepare", ()), environment={}, on_line=print)
    reports = place.root / "reports"
    (reports / "prepare").mkdir()
    (reports / "prepare/picture.png").write_text("of it")
    (reports / "prepared.json").write_text("of another stage")
    commit = snapshots.take(place.root, {"stages": {}}, also=failed_stage_reports.pack(place.root, reports, "prepare"))
    ref = snapshots.ref("run-1", "prepare")
    snapshots.send(shared, commit, ref)
    there = clone(shared, "there")
    git(there, "remote", "set-url", "origin", str(shared.parent / "origin.git"))
    other = workspace.isolate(there, "run-1", {})
    before = git(other.root, "status", "--porcelain")
    snapshots.adopt(other.root, snapshots.fetch(there, ref))
    assert failed_stage_reports.unpack(other.root, other.root / "reports") == {"prepare", "prepare.metrics"}
    assert report_of(other.root, "prepare")["metrics"]["score"] == 3
    assert sorted(path.name for path in (other.root / "reports").rglob("*")) == [
        "picture.png",
        "prepare",
        "prepare.json",
        "prepare.metrics.json",
    ]
    assert git(other.root, "status", "--porcelain") == before
    assert failed_stage_reports.unpack(other.root, other.root / "reports") == set()
