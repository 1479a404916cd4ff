"""`paddleship run` in a toy checkout: real Prefect, real DVC, real MLflow; stages that fail on demand."""

import json
import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
import yaml
from mlflow import MlflowClient

from benchmarks.chaos.toy import FETCH
from paddleship.cli import image_lineage
from paddleship.lineage.release import Lineage
from paddleship.tracking.runs import find
from tests import canaries
from tests.flows.helpers import (
    DVC,
    PROGRAM,
    git,
    hanging,
    how_it_went,
    is_alive,
    mlflow_runs,
    prefect_api,
    report_of,
    started_by_commands,
    wait_for,
)

ALL = ("fetch", "prepare", "train", "export")


def last_error(done):
    return [line for line in done.stderr.splitlines() if line.startswith("error: ")][-1]


def row_of(stage, done):
    """The cells of a stage in the table at the end of a run."""
    return next(line for line in done.stdout.splitlines() if line.startswith(f"{stage} ")).split()


def overlay(root, name="overlay.yaml", **sections):
    (root.parent / name).write_text(yaml.safe_dump(sections))
    return str(root.parent / name)


@pytest.mark.long  # e2e/test_pipeline has such a second run, and test_ci such a third
def test_a_second_run_says_that_nothing_changed_and_a_third_does_what_a_change_reaches(toy, let, pipeline):
    first = pipeline()
    assert first.returncode == 0, first.stderr
    assert how_it_went(first) == dict.fromkeys(ALL, "ran")
    assert "score 1" in first.stdout
    assert "train at work" in first.stdout + first.stderr
    second = pipeline()
    assert how_it_went(second) == dict.fromkeys(ALL, "unchanged")
    assert "Nothing changed since the last run" in second.stdout
    let("export", "better")
    assert how_it_went(pipeline()) == {**dict.fromkeys(ALL, "unchanged"), "export": "ran"}
    assert how_it_went(pipeline("--again", "train")) == {**dict.fromkeys(ALL, "unchanged"), "train": "ran"}
    assert mlflow_runs(toy) == [("FINISHED", None)] * 3, "none of the run that had nothing to do"


@pytest.mark.parametrize(
    ("how", "code", "words"),
    [
        ("miss the gate", 3, "score is 3 (limit 2): lower it"),
        pytest.param("end its process", 2, "train ended with exit code 3 and without an error", marks=pytest.mark.long),
        pytest.param("need an engine", 4, "no Docker engine is reachable: run `make engine`", marks=pytest.mark.long),
    ],
)
def test_a_failed_stage_ends_the_run_with_its_code_and_words_and_shows_no_evidence_of_another_failure(toy, let, pipeline, how, code, words):
    bad_data = "data.raw holds no rows: give some"
    before, verdict = "ran", "failed" if code == 3 else "–"
    for how_now, code_now, words_now in ((how, code, words), ("find bad data", 2, bad_data)):
        let("train", how_now)
        done = pipeline()
        assert done.returncode == code_now
        assert last_error(done) == f"error: {words_now}"
        assert (done.stdout + done.stderr).count(words_now) == 1, "one error, printed once"
        assert how_it_went(done) == {"fetch": before, "prepare": before, "train": "failed", "export": "not run"}
        assert row_of("train", done)[2:4] == ["failed", verdict]
        assert verdict == "–" or report_of(toy, "train")["metrics"]["score"] == 3
        assert "Traceback" not in done.stdout + done.stderr
        assert not (toy / "export.txt").exists()
        before, verdict = "unchanged", "–"
    assert mlflow_runs(toy) == [("FAILED", words), ("FAILED", bad_data)]


PACKAGED = """import json; from pathlib import Path; Path('image.json').write_text(json.dumps({'image_id': 'sha256:0', 'image': 'x:1'}))"""


@pytest.mark.engine
def test_with_nothing_changed_and_no_engine_the_run_does_not_say_that_there_is_an_image(toy, pipeline):
    graph = yaml.safe_load((toy / "dvc.yaml").read_text())
    graph["stages"]["package"] = {"cmd": "python pack.py", "deps": ["pack.py", "prepare.txt"], "outs": ["image.json"]}
    (toy / "dvc.yaml").write_text(yaml.safe_dump(graph, sort_keys=False))
    (toy / "pack.py").write_text(PACKAGED)
    nowhere = {"DOCKER_HOST": "tcp://127.0.0.1:1"}
    assert pipeline("--until", "package").returncode == 0
    known = mlflow_runs(toy)
    done = pipeline("--until", "package", **nowhere)
    assert done.returncode == 4
    assert last_error(done).startswith("error: no Docker engine is reachable (DOCKER_HOST is 'tcp://127.0.0.1:1')")
    assert mlflow_runs(toy) == known, "it ended before its first stage"
    assert pipeline("--until", "prepare", **nowhere).returncode == 0, "what needs no image needs no engine"


def test_a_warning_is_shown_once_and_counted_in_the_table_in_prefect_and_in_mlflow(toy, let, pipeline, prefect_url):
    let("train", "warn")
    for how in ("ran", "unchanged"):
        done = pipeline("--until", "train")
        assert list((toy / ".paddleship/flows").iterdir()) == [], "it ended in order: the next command need not ask Prefect about it"
        assert done.returncode == 0, done.stderr
        assert how_it_went(done)["train"] == how
        assert "passed, 1 warning" in " ".join(row_of("train", done))
        assert (done.stdout + done.stderr).count("train: warning: batch-dependent: padding counts") == 1
    (run,) = find(f"sqlite:///{toy}/.paddleship/mlflow.db")  # the second command found nothing to do
    (artifact,) = prefect_api(prefect_url, "artifacts/filter", {"artifacts": {"flow_run_id": {"any_": [run.flow_run]}}})
    assert artifact["data"].count("* train: warning: batch-dependent: padding counts") == 1


@pytest.mark.parametrize(
    ("sections", "words"),
    [
        ({"train": {"epoch": 3}}, "unknown key 'train.epoch' (did you mean 'epochs'?)"),
        pytest.param({"train": {"epochs": 0}}, "train.epochs: ", marks=pytest.mark.long),
        pytest.param({"trian": {"epochs": 1}}, "unknown key 'trian' (did you mean 'train'?)", marks=pytest.mark.long),
        pytest.param({"optimize": {"candidates": ["onnx"]}}, "did you mean 'onnxruntime'?", marks=pytest.mark.long),
    ],
)
def test_a_wrong_value_is_told_before_anything_starts(toy, pipeline, sections, words):
    done = pipeline("--params", overlay(toy, **sections))
    assert done.returncode == 2
    assert words in last_error(done)
    assert last_error(done).startswith(f"error: {toy.parent}/overlay.yaml: ") or "onnxruntime" in words
    assert (done.stdout + done.stderr).count(words) == 1, "one error, printed once"
    assert ("Beginning flow run" in done.stderr) == ("onnxruntime" in words), "what is wrong in the file needs no flow run"
    assert mlflow_runs(toy) == []
    assert not (toy / ".paddleship/runs").exists()


def test_what_a_late_stage_would_refuse_is_told_before_the_first_one_runs(toy, pipeline):
    done = pipeline("--until", "accept", "--params", overlay(toy, optimize={"threads": 4096}))
    assert done.returncode == 2
    assert "optimize.threads is 4096" in last_error(done)
    assert not (toy / ".paddleship/runs").exists()


def test_a_wrong_value_in_params_yaml_is_told_before_anything_starts(toy, pipeline):
    (toy / "params.yaml").write_text((toy / "params.yaml").read_text().replace("epochs:", "epoch:"))
    done = pipeline()
    assert done.returncode == 2
    assert "unknown key 'train.epoch'" in last_error(done)
    assert mlflow_runs(toy) == []
    assert "Beginning flow run" not in done.stderr
    git(toy, "commit", "-qam", "a wrong value")
    done = pipeline("--params", overlay(toy, train={"patience": 1}))
    assert last_error(done).startswith("error: params.yaml of the last commit: unknown key 'train.epoch'"), "the overlay is not at fault"


def without_fetch(toy):
    """The toy with data that the user brings, and has not brought yet."""
    git(toy, "rm", "-q", "data/dvc.yaml")
    (toy / ".gitignore").write_text((toy / ".gitignore").read_text().replace("/data/raw\n", ""))
    path = toy / "params.yaml"
    path.write_text(path.read_text().replace("raw: examples/linear/linear.csv", "raw: data/raw"))
    git(toy, "commit", "-qam", "data of one's own")


def test_missing_data_is_one_line_before_any_stage_begins(toy, pipeline):
    without_fetch(toy)
    done = pipeline()
    assert done.returncode == 2
    assert last_error(done) == (
        "error: data.raw 'data/raw' does not exist in the checkout: put the data there, give another path (elsewhere: an absolute one), "
        "or name in data.fetch a script that makes it"
    )
    assert mlflow_runs(toy) == []
    (toy / "data/raw").mkdir()
    (toy / "data/raw/rows").write_text("rows\n")
    done = pipeline("--params", overlay(toy, train={"epochs": 11}))
    assert done.returncode == 2
    assert "neither in git nor in DVC, so that this run does not have it: `dvc add data/raw`, and commit" in last_error(done)


def test_data_that_dvc_add_tracks_is_in_every_run_and_a_new_version_of_it_is_run(toy, pipeline):
    without_fetch(toy)
    (toy / "data/raw").mkdir()
    for version in ("rows", "other rows"):
        (toy / "data/raw/rows").write_text(f"{version}\n")
        subprocess.run([DVC, "add", "-q", "data/raw"], cwd=toy, check=True)
        git(toy, "add", "data")
        git(toy, "commit", "-qm", version)
        done = pipeline("--until", "prepare", "--params", overlay(toy, train={"epochs": 11}))
        assert done.returncode == 0, done.stderr
        assert how_it_went(done)["prepare"] == "ran"
    subprocess.run([DVC, "push", "-q"], cwd=toy, check=True)
    done = pipeline("--until", "prepare", checkout=clone(toy, "fresh"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "content", [None, pytest.param("- a\n- list\n", marks=pytest.mark.long), pytest.param("train: {epochs: [", marks=pytest.mark.long)]
)
def test_an_overlay_that_cannot_be_read_is_one_line(toy, pipeline, content):
    path = toy.parent / "overlay.yaml"
    if content is not None:
        path.write_text(content)
    done = pipeline("--params", str(path))
    assert done.returncode == 2
    assert "overlay.yaml" in last_error(done)
    assert "Traceback" not in done.stdout + done.stderr


def test_outside_a_checkout_the_run_says_where_to_go(tmp_path, pipeline):
    done = pipeline(checkout=tmp_path)
    assert done.returncode == 2
    assert "is not in a checkout" in last_error(done)


@pytest.mark.long  # the next stage is killed each time that it is tried
def test_a_killed_stage_is_tried_again(toy, let, pipeline):
    let("train", "be killed once")
    done = pipeline("--until", "train")
    assert done.returncode == 0, done.stderr
    assert how_it_went(done)["train"] == "ran"
    assert (toy / "train.txt").read_text().startswith("whole")


def test_a_stage_that_is_always_killed_is_given_up_after_three_attempts(toy, let, pipeline):
    let("train", "be killed")
    done = pipeline()
    assert done.returncode == 1
    assert "train was killed by SIGKILL" in last_error(done)
    assert (toy / "attempts").read_text() == "xxx"


def test_at_its_time_limit_a_run_ends_its_stage_and_keeps_what_is_finished(toy, let, pipeline):
    let("train", "hang")
    done = pipeline("--timeout", "20")
    assert done.returncode == 2, done.stderr
    assert "train was stopped: the time limit of this run, 20 s, is over" in done.stderr.splitlines()[-1]
    assert (how_it_went(done)["prepare"], how_it_went(done)["train"]) == ("ran", "failed")
    assert not any(is_alive(pid) for pid in hanging(toy))
    assert mlflow_runs(toy)[-1][0] == "FAILED"
    assert pipeline("--timeout", "0").returncode == 2


def test_an_interrupt_ends_the_run_its_stage_and_the_mlflow_run(toy, let, environment):
    let("train", "hang")
    process = subprocess.Popen([PROGRAM, "run", "--until", "export"], cwd=toy, env=environment, stderr=subprocess.PIPE, text=True)
    pids = hanging(toy)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 130
    assert not any(is_alive(pid) for pid in pids)
    assert mlflow_runs(toy) == [("KILLED", "ended by KeyboardInterrupt")]
    assert "Traceback" not in stderr


def test_after_a_kill_in_mid_stage_the_next_run_goes_on_where_it_was(toy, let, environment, pipeline, prefect_url):
    let("train", "hang")
    process = subprocess.Popen([PROGRAM, "run", "--until", "export"], cwd=toy, env=environment)
    pids = hanging(toy)
    process.kill()
    process.wait()
    wait_for(lambda: not any(is_alive(pid) for pid in pids))
    assert (toy / "train.txt").read_text() == "half"
    (dead,) = started_by_commands(toy, prefect_url)
    assert dead["state_type"] == "RUNNING"
    let("train", "well")
    done = pipeline()
    assert done.returncode == 0, done.stderr
    assert prefect_api(prefect_url, f"flow_runs/{dead['id']}")["state_type"] == "CRASHED"
    assert not list((toy / ".paddleship/flows").iterdir())
    assert how_it_went(done) == {"fetch": "unchanged", "prepare": "unchanged", "train": "ran", "export": "ran"}
    assert mlflow_runs(toy) == [("KILLED", "its process was killed, or the machine went down"), ("FINISHED", None)]
    assert (toy / "train.txt").read_text().startswith("whole")


@pytest.mark.long  # test_deployment has two side by side
def test_two_isolated_runs_with_different_params_go_side_by_side_and_leave_the_checkout_alone(toy, pipeline):
    graph = yaml.safe_load((toy / "dvc.yaml").read_text())
    graph["stages"]["prepare"]["params"] = ["train"]  # its out has the epochs in it: each run shall find its own again
    (toy / "dvc.yaml").write_text(yaml.safe_dump(graph, sort_keys=False))
    git(toy, "commit", "-qam", "prepare reads params")
    files = [overlay(toy, f"{epochs}.yaml", train={"epochs": epochs}) for epochs in (11, 12)]
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda file: pipeline("--until", "train", "--params", file), files))
    assert [done.returncode for done in runs] == [0, 0], runs[0].stderr + runs[1].stderr
    assert git(toy, "status", "--porcelain") == ""
    assert list((toy / ".paddleship/runs").iterdir()) == []
    shown = json.loads(subprocess.run([DVC, "exp", "show", "--json"], cwd=toy, check=True, capture_output=True, text=True).stdout)
    kept = [row["revs"][0]["data"]["params"]["params.yaml"]["data"]["train"]["epochs"] for row in shown[-1]["experiments"]]
    assert sorted(kept) == [11, 12]
    assert how_it_went(pipeline("--until", "train", "--params", files[0])) == dict.fromkeys(ALL[:3], "restored")


def test_of_runs_beside_each_other_one_runs_a_stage_on_the_same_inputs_and_the_others_restore_it(toy, pipeline):
    files = [overlay(toy, f"{epochs}.yaml", train={"epochs": epochs}) for epochs in (11, 12, 13)]
    with ThreadPoolExecutor(len(files)) as pool:
        runs = list(pool.map(lambda file: pipeline("--until", "train", "--params", file, TOY_SECONDS_PREPARE="3"), files))
    assert [done.returncode for done in runs] == [0, 0, 0], "".join(done.stderr for done in runs)
    assert sorted(how_it_went(done)["prepare"] for done in runs) == ["ran", "restored", "restored"]
    assert {how_it_went(done)["train"] for done in runs} == {"ran"}


def test_an_isolated_run_keeps_its_folder_when_it_fails_and_warns_of_uncommitted_work(toy, let, pipeline, prefect_url):
    let("train", "miss the gate")
    git(toy, "commit", "-qam", "a gate")
    let("export", "not committed")
    done = pipeline("--params", overlay(toy, train={"epochs": 11}))
    assert done.returncode == 3
    (folder,) = (toy / ".paddleship/runs").iterdir()
    assert str(folder) in done.stdout
    (run,) = find(f"sqlite:///{toy}/.paddleship/mlflow.db")
    assert re.fullmatch(r"linear: epochs=11 \([0-9a-f]{6}\)", run.name)
    assert prefect_api(prefect_url, f"flow_runs/{run.flow_run}")["name"] == run.name
    assert "how/export" in done.stdout + done.stderr
    assert (folder / "params.yaml").read_text().startswith("# the toy's params")
    (id_of_run,) = re.findall(r"until the next run: .*/(\S+)$", done.stdout, re.MULTILINE)
    assert pipeline("--until", "prepare").returncode == 0
    assert list((toy / ".paddleship/runs").iterdir()) == []
    assert git(toy, "for-each-ref", f"refs/exps/*/*/run-{id_of_run[-8:]}"), "what passed leads back to the params of the run"


def clone(toy, name):
    """A clone elsewhere, whose remote is that of the toy."""
    target = toy.parent / name / "clone"
    target.parent.mkdir()
    git(toy.parent, "clone", "--quiet", str(toy), str(target))
    (target.parent / "paddleship-remote").symlink_to(toy.parent / "paddleship-remote")
    return target


@pytest.mark.long  # so does that of e2e/test_pipeline, and in that of test_ci only what changed runs
@pytest.mark.parametrize(
    ("locked", "brought", "outcome"),
    [(True, ["pull", "--with-deps", "train"], "unchanged"), (False, ["fetch", "--run-cache"], "restored"), (True, None, "restored")],
)
def test_a_fresh_clone_repeats_nothing(toy, pipeline, locked, brought, outcome):
    pipeline("--until", "train")
    if locked:
        git(toy, "add", "dvc.lock", "data/dvc.lock")
        git(toy, "commit", "-qm", "the state of the data")
    checkout = clone(toy, "elsewhere")
    if brought:
        subprocess.run([DVC, *brought], cwd=checkout, check=locked, capture_output=True)
    done = pipeline("--until", "train", checkout=checkout)
    assert done.returncode == 0, done.stderr
    assert set(how_it_went(done).values()) == {outcome}
    assert row_of("train", done)[1] == "–", "it took no time here"


def test_the_work_goes_on_without_mlflow_and_the_evidence_is_delivered_later_without_a_credential(
    toy, environment, pipeline, free_port, prefect_folder
):
    credentials, remote = canaries.environment(toy.parent), canaries.of_remote(toy)
    address = canaries.address(free_port())
    done = pipeline("--until", "prepare", "--params", overlay(toy, train={"epochs": 11}), MLFLOW_TRACKING_URI=address, **credentials)
    assert done.returncode == 0, done.stderr
    assert "paddleship deliver" in done.stdout
    assert canaries.in_bytes((done.stdout + done.stderr).encode()) == []
    assert canaries.in_folder(toy.parent, apart_from={remote, toy.parent / "docker/config.json"}) == []
    assert canaries.in_folder(prefect_folder) == []
    objects = subprocess.run(["git", "cat-file", "--batch", "--batch-all-objects"], cwd=toy, check=True, capture_output=True).stdout
    assert b"epochs: 11" in objects, "the experiment of the run is among them"
    assert canaries.in_bytes(objects) == []
    sent = subprocess.run([PROGRAM, "deliver"], cwd=toy, env=environment, capture_output=True, text=True, check=True)
    assert sent.stdout.startswith("delivered run ")
    assert mlflow_runs(toy) == [("FINISHED", None)]


def test_what_could_not_be_pushed_is_pushed_by_the_next_run_though_nothing_changed(toy, pipeline):
    remote = toy.parent / "paddleship-remote"
    remote.write_text("no folder")
    done = pipeline("--until", "prepare")
    assert done.returncode == 0, done.stderr
    assert "dvc push failed" in done.stdout + done.stderr
    remote.unlink()
    done = pipeline("--until", "prepare")
    assert how_it_went(done) == dict.fromkeys(ALL[:2], "unchanged")
    assert list((remote / "files").rglob("*"))
    assert not (toy / ".paddleship/unpushed").exists()


@pytest.mark.slow
@pytest.mark.long  # the runs of e2e/ bring their own
def test_without_a_server_the_run_brings_its_own(toy, environment):
    del environment["PREFECT_API_URL"], environment["PREFECT_HOME"]
    done = subprocess.run([PROGRAM, "run", "--until", "prepare"], cwd=toy, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert how_it_went(done) == {"fetch": "ran", "prepare": "ran"}
    assert "View at" not in done.stdout + done.stderr, "that server has no pages"
    assert list((toy / ".paddleship/prefect").glob("*.db"))
    assert not (toy / "mlruns").exists()


@pytest.mark.slow
@pytest.mark.spawned
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="there is no /proc")
def test_a_run_that_is_killed_outright_leaves_no_server_and_no_stage(toy, let, environment, with_tables):
    del environment["PREFECT_API_URL"], environment["PREFECT_HOME"]
    with_tables(toy)
    let("prepare", "hang")
    with subprocess.Popen([PROGRAM, "run", "--until", "prepare"], cwd=toy, env=environment) as process:
        stage = hanging(toy)
        left = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        programs = [" ".join(psutil.Process(pid).cmdline()) for pid in left]
        process.kill()
    assert any("paddleship.servers.prefect_server" in program for program in programs), "Prefect's temporary server is among them"
    wait_for(lambda: not any(is_alive(pid) for pid in {*left, *stage}))


@pytest.mark.slow
@pytest.mark.long  # the process alone is interrupted above, and a run with its own server is killed above
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_with_its_own_server_ends_quickly_when_the_whole_terminal_is_interrupted(toy, let, environment, with_tables, number):
    """Ctrl-C, and what CI sends to cancel a job, go to all processes of the terminal."""
    del environment["PREFECT_API_URL"], environment["PREFECT_HOME"]
    with_tables(toy)
    let("train", "hang")
    with (toy / "log").open("w") as log:
        process = subprocess.Popen(
            [PROGRAM, "run", "--until", "train"], cwd=toy, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        stage = hanging(toy)
        left = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
        os.killpg(process.pid, number)
        assert process.wait(300) == 130
    finally:
        process.kill()
    said = (toy / "log").read_text()
    assert "Traceback" not in said
    assert "defect" not in said
    assert "All connection attempts failed" not in said
    assert said.splitlines()[-1].startswith("error: interrupted: ")
    assert mlflow_runs(toy)[-1][0] == "KILLED"
    wait_for(lambda: not any(is_alive(pid) for pid in {*left, *stage}))


@pytest.mark.long  # e2e/test_own_model does it for an isolated run
@pytest.mark.parametrize("isolated", [True, False])
def test_the_commands_that_trace_prints_bring_params_lock_and_rows_back_in_a_fresh_clone(toy, pipeline, tmp_path, isolated):
    git(toy, "mv", "data/dvc.yaml", "fetch.yaml")
    text = (toy / "dvc.yaml").read_text()
    fetch = {**FETCH, "wdir": "."}
    (toy / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"fetch": fetch, **yaml.safe_load(text)["stages"]}}, sort_keys=False))
    git(toy, "commit", "-qam", "one graph")
    if isolated:
        assert pipeline("--until", "train", "--params", overlay(toy, train={"epochs": 11})).returncode == 0
    else:
        path = toy / "params.yaml"
        path.write_text(re.sub(r"epochs: \d+", "epochs: 11", path.read_text()))
        assert pipeline("--until", "train").returncode == 0
    store = f"sqlite:///{toy}/.paddleship/mlflow.db"
    refs = git(toy, "for-each-ref", "--format=%(refname)", "refs/exps/*/*/run-*").split()
    (run,) = MlflowClient(store).search_runs(["1"])
    facts = {"git_commit": git(toy, "rev-parse", "HEAD").strip(), "mlflow_run_id": run.info.run_id, "mlflow_tracking_uri": store}
    lineage = Lineage.model_construct(**facts, git_changes=[], experiment=refs[0].rpartition("/")[2] if isolated else None)
    commands = [line for line in image_lineage.back(lineage) if line.startswith("  ")]
    target = clone(toy, "traced")
    environment = {**os.environ, "PATH": f"{Path(DVC).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-ec", "\n".join(commands)], cwd=target, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load((target / "params.yaml").read_text())["train"]["epochs"] == 11
    assert (target / "prepare.txt").read_text() == "whole, 11 epochs"
    locked = yaml.safe_load((target / "dvc.lock").read_text())["stages"]["train"]["params"]["params.yaml"]["train"]
    assert locked["epochs"] == 11
