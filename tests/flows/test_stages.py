"""DVC's door: the graph, what is up to date, and a stage's process from its start to its end."""

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
import yaml

from paddleship.errors import BadInput, GateFailed, Unavailable
from paddleship.execution import repro, stages
from paddleship.execution.repro import ReproResult, StageStatus
from paddleship.execution.stages import Stage, StageKilled
from paddleship.orchestration import stage_tasks
from paddleship.reports.report import Report
from paddleship.reports.verdict import Check, Verdict
from tests.flows.helpers import DVC, git, hanging, is_alive, report_of, wait_for

PREPARE = Stage("prepare", "prepare", ())


def run(root, stage=PREPARE, **more):
    lines = []
    return stages.run(root, stage, environment=more, on_line=lines.append), lines


def test_the_graph_is_that_of_dvc_yaml_in_run_order(toy):
    graph = stages.graph(toy)
    assert [stage.name for stage in graph] == ["fetch", "prepare", "train", "export", "accept"]
    assert {stage.name: stage.needs for stage in graph} == {
        "fetch": (),
        "prepare": ("fetch",),
        "train": ("prepare",),
        "export": ("train",),
        "accept": ("export", "prepare"),
    }
    assert graph[0].address == "data/dvc.yaml:fetch"


def test_the_graph_ends_at_the_stage_that_was_asked_for(toy):
    assert [stage.name for stage in stages.graph(toy, until="train")] == ["fetch", "prepare", "train"]


def test_data_that_dvc_add_tracks_is_no_stage(toy):
    git(toy, "rm", "--cached", "data/source")
    subprocess.run([DVC, "add", "-q", "data/source"], cwd=toy, check=True)
    graph = stages.graph(toy)
    assert graph[0] == Stage("fetch", "data/dvc.yaml:fetch", ())
    assert [stage.name for stage in graph] == ["fetch", "prepare", "train", "export", "accept"]


def test_a_graph_that_cannot_be_read_is_bad_input(toy):
    (toy / "dvc.yaml").write_text("stages: [")
    with pytest.raises(BadInput, match=r"dvc\.yaml cannot be read"):
        stages.graph(toy)


def test_params_of_an_earlier_version_are_refused_with_what_to_add(toy):
    repository = Path(__file__).parents[2]
    shutil.copy(repository / "dvc.yaml", toy)
    text = (repository / "params.yaml").read_text()
    (toy / "params.yaml").write_text(
        "".join(line for line in text.splitlines(True) if not line.strip().startswith(("weights_source", "answer:")))
    )
    with pytest.raises(BadInput) as refused:
        stages.graph(toy)
    message = "params.yaml has no `paths.weights_source` (weights_source.json), `answer` (label), which dvc.yaml reads"
    assert str(refused.value) == f"{message}: add it there; the default is in parentheses"


def test_a_folder_without_dvc_is_bad_input(tmp_path):
    with pytest.raises(BadInput, match="not a DVC repository"):
        stages.graph(tmp_path)


def test_a_stage_streams_its_lines_and_is_current_afterwards(fetched):
    assert not stages.are_current(fetched, PREPARE)
    outcome, lines = run(fetched)
    assert outcome == "ran"
    assert "prepare at work" in lines
    assert stages.are_current(fetched, PREPARE)


def test_a_stage_that_was_run_with_these_inputs_before_is_restored(fetched, let):
    run(fetched)
    let("prepare", "better")
    run(fetched)
    let("prepare", "well")
    assert not stages.are_current(fetched, PREPARE)
    outcome, lines = run(fetched)
    assert outcome == "restored"
    assert "prepare at work" not in lines


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        (["Running stage 'train':", "> python -m tasks.train"], "ran"),
        (["Stage 'train' is cached - skipping run, checking out outputs"], "restored"),
        (["Pulling data for stage: 'train'", "Data and pipelines are up to date."], "restored"),
        (["Pulling data for stage: 'train'", "Unable to pull data for stage: 'train'", "Running stage 'train':"], "ran"),
        (["Stage 'train' didn't change, skipping", "Data and pipelines are up to date."], "unchanged"),
        (["Running stage 'train':", "Pulling data for a friend", "Stage 'x' is cached - skipping run"], "ran"),
    ],
)
def test_what_dvc_says_of_a_stage_is_what_is_reported(lines, outcome):
    ended = ReproResult()
    for line in lines:
        ended.read(line)
    assert ended.status == outcome


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        ("miss the gate", GateFailed, "score is 3 (limit 2): lower it"),
        ("find bad data", BadInput, "data.raw holds no rows: give some"),
        ("need an engine", Unavailable, "no Docker engine is reachable: run `make engine`"),
    ],
)
def test_a_stage_that_fails_raises_the_error_of_its_exit_code_in_its_own_words(fetched, let, how, kind, words):
    let("prepare", how)
    with pytest.raises(kind) as raised:
        run(fetched)
    assert str(raised.value) == words
    assert type(raised.value) is kind


def test_a_missed_gate_leaves_its_report(fetched, let):
    let("prepare", "miss the gate")
    with pytest.raises(GateFailed):
        run(fetched)
    assert report_of(fetched, "prepare")["metrics"]["score"] == 3
    assert not stages.are_current(fetched, PREPARE)


def test_a_failed_stage_has_the_report_that_it_wrote_and_not_an_earlier_one_whatever_the_clock_said(tmp_path):
    def write(day):
        passed = Verdict(checks=[Check.at_most("score", 1, 2)])
        Report(stage="prepare", headline=f"day {day}", verdict=passed, started_at=datetime(2026, 11, day, tzinfo=UTC)).write(tmp_path)

    write(20)
    before = [stage_tasks._version(tmp_path, PREPARE)]
    assert stage_tasks._report(tmp_path, PREPARE, but=before) is None
    write(19)
    assert stage_tasks._report(tmp_path, PREPARE, but=before).headline == "day 19"
    assert stage_tasks._report(tmp_path / "none", PREPARE, but=[]) is None


def test_a_killed_stage_is_told_from_a_failed_one(fetched, let):
    let("prepare", "be killed")
    with pytest.raises(StageKilled, match="prepare was killed by SIGKILL"):
        run(fetched)


def test_half_an_out_is_never_taken_for_good(fetched, let):
    let("prepare", "be killed once")
    with pytest.raises(StageKilled):
        run(fetched)
    assert (fetched / "prepare.txt").read_text() == "half"
    assert not stages.are_current(fetched, PREPARE)
    assert run(fetched)[0] == "ran"
    assert (fetched / "prepare.txt").read_text().startswith("whole")


def test_an_interrupt_ends_the_stage_and_what_it_started(fetched, let):
    let("prepare", "hang")

    def interrupt(_line):
        interrupt.pids = hanging(fetched)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stages.run(fetched, PREPARE, environment={}, on_line=lambda line: interrupt(line) if line == "prepare at work" else None)
    assert len(interrupt.pids) == 2
    assert not any(is_alive(pid) for pid in interrupt.pids)


def test_a_flow_that_is_killed_outright_takes_its_stage_along_and_the_next_run_resumes(fetched, let):
    let("prepare", "hang")
    code = "from pathlib import Path; from paddleship.execution import stages; "
    code += "stages.run(Path('.'), stages.Stage('prepare', 'prepare', ()), environment={}, on_line=print)"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=fetched, stdout=subprocess.DEVNULL)
    pids = [*hanging(fetched), *(child.pid for child in psutil.Process(process.pid).children())]
    process.kill()
    process.wait()
    wait_for(lambda: not any(is_alive(pid) for pid in pids))
    let("prepare", "well")
    assert run(fetched)[0] == "ran"
    assert (fetched / "prepare.txt").read_text().startswith("whole")


def test_two_runs_in_one_folder_take_turns_and_do_the_work_once(fetched):
    with ThreadPoolExecutor(2) as pool:
        outcomes = [done.result()[0] for done in [pool.submit(run, fetched), pool.submit(run, fetched)]]
    assert sorted(outcomes) == ["ran", "unchanged"]
    assert stages.are_current(fetched, PREPARE)


def test_a_stage_sees_the_environment_that_it_is_given_and_no_terminal(fetched):
    (fetched / "stage.py").write_text("import os, sys; print(os.environ['PADDLESHIP_FLOW_RUN_ID'], sys.stdin.read() == '')")
    lines = []
    with pytest.raises(BadInput, match=r"DVC cannot run prepare .*prepare\.txt' does not exist"):
        stages.run(fetched, PREPARE, environment={"PADDLESHIP_FLOW_RUN_ID": "flow-7"}, on_line=lines.append)
    assert "flow-7 True" in lines


def test_missing_data_is_bad_input_in_the_words_of_dvc(toy):
    with pytest.raises(BadInput, match="data/raw"):
        run(toy)


def test_a_remote_that_cannot_be_reached_is_told_and_stops_nothing(fetched):
    run(fetched)
    (fetched / ".dvc/config.local").write_text("['remote \"storage\"']\n    url = /proc/nowhere\n")
    lines = []
    assert not stages.push(fetched, on_line=lines.append)
    assert "dvc push --run-cache" in lines[0]


def test_the_signal_of_a_shell_is_understood_too():
    assert isinstance(stages._failure(PREPARE, ReproResult(stage_code=128 + signal.SIGTERM)), StageKilled)


def test_a_disk_that_is_full_when_dvc_writes_is_no_bad_input():
    ended = ReproResult(returncode=255)
    ended.read("ERROR: failed to reproduce 'prepare': [Errno 28] No space left on device")
    failure = stages._failure(PREPARE, ended)
    assert isinstance(failure, Unavailable)
    assert "free some space" in str(failure)
    assert isinstance(stages._failure(PREPARE, ReproResult(returncode=255, dvc_error="[Errno 2] no such file")), BadInput)


@pytest.mark.parametrize(
    "holders",
    [
        '{"write": {"OUT": {"pid": 4194305, "cmd": "dvc repro"}}}',
        f'{{"read": {{"OUT": [{{"pid": {os.getpid()}, "cmd": "dvc repro another"}}]}}}}',
        '{"write": {"OUT": {"pid": 41',
        "",
    ],
    ids=["dead", "another process has its pid", "cut off", "empty"],
)
def test_the_lock_of_a_killed_dvc_is_taken_without_a_word(fetched, holders):
    """DVC warns of it in every later command, waits for a process that has its pid, and refuses a list that is cut off."""
    path = fetched / ".dvc/tmp/rwlock"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(holders.replace("OUT", str(fetched / "prepare.txt")))
    outcome, lines = run(fetched)
    assert outcome == "ran"
    assert "dvc repro" not in path.read_text()
    assert not [line for line in lines if "RWLock" in line or "killed" in line]


@pytest.mark.parametrize("left", [0, 40, 200], ids=lambda count: f"{count} bytes")
@pytest.mark.parametrize("first", [False, True], ids=["a later stage", "the first stage"])
def test_a_dvc_lock_that_was_cut_off_by_a_kill_is_brought_back(fetched, monkeypatch, first, left):
    """DVC opens it for writing, which empties it, and refuses what is left of it in every later command."""
    lock = fetched / "dvc.lock"
    if not first:
        run(fetched)
    whole = lock.read_text() if lock.exists() else None

    def killed(*_arguments, **_more):
        lock.write_text((whole or "schema: '2.0'\nstages:\n  prepare:\n    cmd: true\n    deps:\n")[:left])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(repro, "repro", killed)
        with pytest.raises(KeyboardInterrupt):
            run(fetched, Stage("train", "train", ("prepare",)))
    stages.graph(fetched)
    assert (lock.read_text() if lock.exists() else None) == whole
    assert run(fetched)[0] == ("ran" if first else "unchanged")
    assert not (fetched / stages._BEFORE).exists()


def test_a_dvc_lock_that_somebody_merges_is_left_to_them(fetched):
    run(fetched)
    (fetched / stages._BEFORE).write_text('{"path": "dvc.lock", "text": null}')
    (fetched / "dvc.lock").write_text("<<<<<<< HEAD\n")
    with pytest.raises(BadInput, match=r"dvc\.lock"):
        stages.graph(fetched)
    assert (fetched / "dvc.lock").read_text() == "<<<<<<< HEAD\n"


def test_a_stage_ends_at_once_where_nobody_waits_for_its_orphans():
    leader = subprocess.Popen(["sleep", "60"], process_group=0)
    orphan = subprocess.Popen(["true"], process_group=leader.pid)
    wait_for(lambda: psutil.Process(orphan.pid).status() == psutil.STATUS_ZOMBIE)
    started = time.monotonic()
    said = []
    repro._end_group(leader, said.append)
    assert time.monotonic() - started < repro._GRACE_S / 2
    assert said == []
    leader.wait()
    assert psutil.Process(orphan.pid).status() == psutil.STATUS_ZOMBIE
    orphan.wait()


def test_what_a_stage_left_behind_is_ended_before_it_counts_as_ended(monkeypatch):
    ignoring = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    leader = subprocess.Popen(["sleep", "60"], process_group=0)
    with subprocess.Popen([sys.executable, "-c", ignoring], process_group=leader.pid, stdout=subprocess.PIPE, text=True) as left:
        assert left.stdout.readline() == "up\n"
        monkeypatch.setattr(repro, "_GRACE_S", 2)
        said = []
        repro._end_group(leader, said.append)
        assert said == ["stopping: the stage has 2 s to end, then it is killed"]
        assert left.wait(300) == -signal.SIGKILL
    leader.wait()


def test_a_param_that_changed_is_told_with_both_values(tmp_path):
    git(tmp_path, "init", "-q")
    subprocess.run([DVC, "init", "-q"], cwd=tmp_path, check=True)
    stage = {"cmd": "echo trained > out", "params": ["train"], "outs": ["out"]}
    (tmp_path / "dvc.yaml").write_text(yaml.safe_dump({"stages": {"train": stage}}))
    (tmp_path / "params.yaml").write_text("train: {epochs: 8, kwargs: {width: 32}, loss: null}\n")
    subprocess.run([DVC, "repro", "-q"], cwd=tmp_path, check=True)
    wanted = [Stage("train", "train", ())]
    assert stages.changes(tmp_path, wanted) == {}
    (tmp_path / "params.yaml").write_text("train: {epochs: 2, kwargs: {width: 64}, loss: null, patience: 3}\n")
    changed = ["train.epochs 8 → 2", "train.kwargs.width 32 → 64", "train.patience null → 3"]
    assert stages.changes(tmp_path, wanted) == {"train": [f"params.yaml: {words}" for words in changed]}


def test_an_entry_that_another_run_is_writing_is_left_alone_and_a_whole_one_is_taken(toy):
    fetch = Stage("fetch", "data/dvc.yaml:fetch", ())
    assert run(toy, fetch)[0] == StageStatus.RAN
    (entry,) = [path for path in (toy / ".dvc/cache/runs").rglob("*") if path.is_file() and path.suffix != ".lock"]
    unfinished = entry.with_name(".half.tmp")
    unfinished.write_text(entry.read_text()[:20])
    (toy / "data/dvc.lock").unlink()
    status, lines = run(toy, fetch)
    assert status == StageStatus.RESTORED, lines
    assert unfinished.exists()


def test_only_entries_that_are_missing_travel_to_the_remote_and_back(toy):
    def entries(folder):
        return {path.relative_to(folder): path.stat().st_mtime for path in folder.rglob("*") if path.is_file()}

    fetch = Stage("fetch", "data/dvc.yaml:fetch", ())
    here, there = toy / ".dvc/cache/runs", toy.parent / "paddleship-remote/runs"
    assert run(toy, fetch)[0] == StageStatus.RAN
    assert stages.push(toy, on_line=print)
    before = entries(there)
    assert [*before] == [*entries(here)]
    assert run(toy)[0] == StageStatus.RAN
    assert stages.push(toy, on_line=print)
    assert len(entries(there)) == 2
    assert before.items() <= entries(there).items(), "it was not written again"
    shutil.rmtree(here)
    for name in ("dvc.lock", "data/dvc.lock"):
        (toy / name).unlink()
    assert [run(toy, stage)[0] for stage in (fetch, PREPARE)] == [StageStatus.RESTORED] * 2


def test_a_push_takes_the_entries_whose_outs_it_takes(fetched):
    for words in ("one", "other"):
        (fetched / "data/raw/rows").write_text(f"{words}\n")
        assert run(fetched)[0] == StageStatus.RAN
    assert stages.push(fetched, on_line=print)
    entries = [path.read_text() for path in (fetched.parent / "paddleship-remote/runs").rglob("*") if path.is_file()]
    assert [yaml.safe_load(entry) for entry in entries] == [yaml.safe_load((fetched / "dvc.lock").read_text())["stages"]["prepare"]]
    graph = yaml.safe_load((fetched / "dvc.yaml").read_text())
    graph["stages"]["prepare"]["deps"].append("a-file-that-came-later")
    (fetched / "dvc.yaml").write_text(yaml.safe_dump(graph))
    assert stages.push(fetched, on_line=print)
