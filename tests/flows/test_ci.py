"""`paddleship ci` in a toy checkout, the workflow files that call it, and what it says of a champion."""

import errno
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from prefect.client.schemas.objects import StateDetails
from prefect.states import Completed, Failed

from paddleship.cli import ci_report
from paddleship.cli import pipeline as pipeline_commands
from paddleship.cli.run_pair import RunPair
from paddleship.errors import BadInput, Unavailable
from paddleship.execution import workspace
from paddleship.orchestration import pending_changes
from paddleship.reports import row_scores
from paddleship.reports.finding import Finding
from paddleship.servers.local_state import Local
from paddleship.shipped.computing.files import write_text
from paddleship.tracking import runs, spool
from paddleship.tracking.client import connect
from paddleship.tracking.run import Tracker
from paddleship.tracking.runs import Run
from tests.flows.helpers import DVC, PROGRAM, REPOSITORY, git, mlflow_runs
from tests.paddleship.pages import made

FLOW_RUN = "01234567-0123-7123-8123-0123459f31c2"
ENVIRONMENT = Path(sys.executable).parents[1]


@pytest.fixture
def job(environment):
    """`paddleship ci` in a checkout."""

    def run(checkout, *arguments):
        command = [PROGRAM, "ci", "--until", "export", *arguments]
        return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False, timeout=300)

    return run


@pytest.fixture
def released(toy, pipeline):
    """A fresh clone of the toy, whose dvc.lock names what a run made and nobody has pulled."""
    assert pipeline().returncode == 0
    git(toy, "add", "dvc.lock", "data/dvc.lock")
    git(toy, "commit", "-qm", "lock")
    git(toy.parent, "clone", "-q", "toy", "clone")
    return toy.parent / "clone"


def test_in_a_fresh_clone_only_what_changed_runs_and_the_report_names_it(released, job, mlflow_db):
    done = job(released)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("nothing changed since dvc.lock")
    assert (released / "reports/ci.md").read_text().startswith("Nothing changed since dvc.lock")
    assert "no commit has this dvc.lock" not in done.stdout
    assert not (released / "export.txt").exists()
    assert not (released / ".paddleship/mlflow.db").exists()
    (released / ".paddleship").mkdir(exist_ok=True)
    shutil.copy(mlflow_db, released / ".paddleship")
    for change in ("how/export", ""):
        if change:
            (released / change).write_text("better\n")
        done = job(released, *([] if change else ["--force"]))
        assert done.returncode == 0, done.stderr
        report = (released / "reports/ci.md").read_text()
        assert report.startswith("**All ")
        assert ("* export: how/export" in report) == bool(change)
        assert "* train" not in report
        assert "| export | passed | score 1 |" in report
        assert "no champion yet" in report
        assert f"of commit `{git(released, 'rev-parse', 'HEAD').strip()}`" in report
    assert mlflow_runs(released) == [("FINISHED", None)] * 2
    assert "no commit has this dvc.lock: commit it" in job(released).stdout


def test_a_missed_gate_is_its_exit_code_and_in_the_report(toy, let, job):
    let("train", "miss the gate")
    done = job(toy, "--report", "elsewhere/report.md")
    assert done.returncode == 3
    assert "error: score is 3 (limit 2): lower it" in done.stderr
    report = (toy / "elsewhere/report.md").read_text()
    assert report.startswith("**Failed: GateFailed: score is 3 (limit 2): lower it")
    assert "| train | **failed** | score 3 |" in report
    assert "* prepare: it is not in dvc.lock" in report
    assert "* export" not in report, "the run did not reach it"
    assert report.endswith(f"Exit code 3, commit `{git(toy, 'rev-parse', 'HEAD').strip()}`.\n")


def test_bad_params_are_one_error_and_replace_the_report_of_an_earlier_job(toy, job):
    (toy / "reports").mkdir(exist_ok=True)
    (toy / "reports/ci.md").write_text("**All gates passed.**")
    (toy / "reports/report.html").write_text("All gates passed.")
    (toy / "params.yaml").write_text((toy / "params.yaml").read_text().replace("epochs:", "epoch:"))
    done = job(toy)
    assert done.returncode == 2
    assert (done.stdout + done.stderr).count("did you mean 'epochs'?") == 1
    assert not (toy / "reports/report.html").exists()
    report = (toy / "reports/ci.md").read_text()
    assert report.startswith("**Failed: BadInput: ")
    assert "did you mean 'epochs'?" in report
    assert report.endswith(f"Exit code 2, commit `{git(toy, 'rev-parse', 'HEAD').strip()}`.\n")


def test_bad_params_leave_no_page_of_an_earlier_run(toy, pipeline):
    """Also below another folder for reports, and where a run is begun whatever changed."""
    for folder, arguments in (("reports", ()), ("elsewhere", ()), ("elsewhere", ("--name", "mine"))):
        page = toy / folder / "report.html"
        page.parent.mkdir(exist_ok=True)
        page.write_text("All gates passed.")
        (toy / "params.yaml").write_text(f"paths: {{reports: {folder}}}\ntrain: {{epoch: 1}}\n")
        done = pipeline(*arguments)
        assert done.returncode == 2, done.stderr
        assert not page.exists()
    outside = toy.parent / "report.html"
    outside.write_text("not ours")
    (toy / "params.yaml").write_text("paths: {reports: ..}\n")
    assert pipeline().returncode == 2
    assert outside.exists()


def test_the_page_of_the_last_run_stays_if_nothing_changed(toy, pipeline):
    assert pipeline().returncode == 0
    assert "nothing changed" in pipeline().stdout.lower()
    assert (toy / "reports/report.html").exists()


def test_what_a_message_holds_is_no_html_and_no_cell_in_the_report(toy, monkeypatch):
    local, reports = Local(toy), made.reports()
    reports[1].headline = "<b>good</b> | really"
    reports[1].findings = [Finding("few-rows", "warning", "<script>alert(1)</script>", "use `a<b`")]
    reports[3].candidates["paddle"] |= {"reason": "slow | <i>"}
    monkeypatch.setattr(spool, "of_flow_run", lambda *_: reports)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    ended = Failed(message="<script>alert(2)</script>", state_details=StateDetails(flow_run_id=FLOW_RUN))
    ci_report.write(local, ended, {"train": ["<u>"]}, toy / "reports/ci.md", commit="0")
    report = (toy / "reports/ci.md").read_text()
    assert not re.search(r"<(script|b|i|u)>", report)
    assert report.count("&lt;script>") == 2
    assert r"| &lt;b>good&lt;/b> \| really |" in report
    assert r"| slow \| &lt;i> |" in report
    assert "use `a<b`" in report


def test_a_run_that_ends_before_its_first_stage_is_a_report_with_the_reason(toy, job):
    (toy / "data/source").unlink()
    assert job(toy).returncode == 2
    assert (toy / "reports/ci.md").read_text().startswith("**Failed: BadInput: ")


def test_failed_data_are_a_report_with_the_commit_and_without_changes_of_later_stages(toy, let, job):
    let("prepare", "find bad data")
    done = job(toy)
    assert done.returncode == 2, done.stderr
    report = (toy / "reports/ci.md").read_text()
    assert report.startswith("**Failed: BadInput: ")
    assert "data.raw holds no rows" in report
    assert "* prepare: " in report
    assert "* train" not in report
    assert "* export" not in report
    assert report.endswith(f"Exit code 2, commit `{git(toy, 'rev-parse', 'HEAD').strip()}`.\n")


def test_a_new_version_of_data_is_seen_before_it_is_pulled(released):
    """The file itself is not here: only the .dvc file names its new content."""
    git(released, "rm", "--cached", "data/source")
    for content, found in ((None, {}), ("other rows\n", {"fetch": ["data/source"]})):
        if content:
            (released / "data/source").write_text(content)
        subprocess.run([DVC, "add", "-q", "data/source"], cwd=released, check=True)
        (released / "data/source").unlink()
        assert pending_changes.changes(released, "export") == found


def test_another_commit_is_fetched_and_run_in_a_worktree_of_its_own(toy, pipeline, tmp_path):
    git(tmp_path, "clone", "-q", "toy", "other")
    git(toy, "remote", "add", "origin", str(tmp_path / "other"))
    (tmp_path / "other/how/train").write_text("miss the gate\n")
    git(tmp_path / "other", "commit", "-qam", "theirs")
    theirs = git(tmp_path / "other", "rev-parse", "HEAD").strip()
    assert pipeline("--commit", theirs).returncode == 3
    assert [run.tags["git_commit"] for run in runs.find(f"sqlite:///{toy}/.paddleship/mlflow.db")] == [theirs]
    assert not (toy / "train.txt").exists()
    with pytest.raises(BadInput, match="there is no commit, branch or tag 'nowhere'"):
        workspace.commit(toy, "nowhere")


def run_with(name, *, machine="here", status="FINISHED", **metrics):
    figures = {"benchmark/speedup": 7.5, "benchmark/speedup_low": 6.75, "benchmark/speedup_high": 8.25, "benchmark/p50_ms": 0.02}
    figures |= {"train/test_accuracy": 0.86, "train/test_loss": 0.4, "train/validation_accuracy": 0.86, **metrics}
    tags = {"winner": name, "measured_on": machine, "prefect_flow_run": name}
    tags |= {} if status == "FINISHED" else {"reason": "GateFailed", "failure": "accept: wrong_answers is 3 (limit 0)"}
    return Run(name, "1", name, "m", datetime.now(UTC), status, figures, {}, tags, None)


def compared(new, old, *measured):
    """The rows of the table, by name, of two runs with these reports."""
    return {name: cells for name, *cells in ci_report.compare(RunPair.of(new, old, measured or (made.reports(), made.reports())))}


def against(monkeypatch, new, old, *measured):
    """The section of the report about a champion."""
    monkeypatch.setattr(runs, "champion", lambda *_: ("3", old))
    monkeypatch.setattr(runs, "reports", lambda *_: measured[1])
    return "\n".join(ci_report._against_champion("", new, measured[0]))


@pytest.mark.parametrize(("p50", "words"), [(0.01, "0.5×: better"), (0.04, "2×: worse"), (0.0201, "1.005×: cannot tell")])
def test_a_latency_is_called_better_only_where_the_intervals_are_apart(p50, words):
    new, old = run_with("new", **{"benchmark/p50_ms": p50}), run_with("old")
    rows = compared(new, old, made.reports(p50=p50, eager=0.15), made.reports(p50=0.02, eager=0.15))
    assert rows["p50"][2] == words
    assert rows["p50"][1].replace("\xa0", " ") in ("20.0 µs", "20 µs")
    assert rows["test_accuracy"][:2] == ["0.86", "0.86"]
    assert rows["speedup over eager, 95% interval"] == ["7.50× (6.75 to 8.25)"] * 2 + ["1×"]
    assert "test_loss" not in rows


def test_a_run_on_another_speed_of_the_machine_is_never_called_better(monkeypatch):
    """Its eager was slower too, so that its speedup rose while its latency did."""
    changed = {"benchmark/p50_ms": 0.04, "benchmark/speedup": 11.0, "benchmark/speedup_low": 10.5, "benchmark/speedup_high": 12.0}
    reports = made.reports(p50=0.04, speedup=11.0, eager=0.44), made.reports(eager=0.15)
    text = against(monkeypatch, run_with("new", **changed), run_with("old"), *reports)
    assert "**Against the champion:** It cannot be told which is better." in text
    assert "* latency is not compared everywhere: eager itself took" in text
    rows = compared(run_with("new", **changed), run_with("old"), *reports)
    assert [rows[name][2] for name in ("p50", "speedup over eager, 95% interval")] == ["not compared"] * 2
    assert not re.search(r"\| [^|]*(better|worse)", text)


def test_a_run_that_missed_a_gate_is_never_called_better(monkeypatch):
    new, old = run_with("new", status="FAILED", **{"benchmark/p50_ms": 0.002}), run_with("old")
    reports = made.reports(p50=0.002, wrong=3), made.reports()
    text = against(monkeypatch, new, old, *reports)
    assert "**Against the champion:** The champion, version 3 is the only one that can be chosen. this run cannot be chosen." in text
    assert "* this run: Failed: accept: wrong_answers is 3 (limit 0)" in text
    assert compared(new, old, *reports)["p50"][2] == "0.1×: cannot tell, this run did not pass"


def test_scores_of_known_rows_have_the_interval_of_their_difference():
    one, other = made.reports(accuracy=0.9), made.reports(accuracy=0.8)
    for reports, wrong in ((one, 100), (other, 200)):
        reports[1].facts["row_scores"] = row_scores.pack((np.arange(1000) >= wrong) / 1000)
    new, old = run_with("new", **{"train/validation_accuracy": 0.9}), run_with("old", **{"train/validation_accuracy": 0.8})
    rows = compared(new, old, one, other)
    assert rows["validation_accuracy"][2].startswith("+0.1000, 95% interval +0.0")
    assert rows["test_accuracy"][2] == "+0.0000"


def test_latencies_of_two_machines_are_not_compared():
    new, old = run_with("new", **{"package/image_bytes": 2e6}), run_with("old", machine="b")
    rows = compared(new, old)
    assert rows["p50"][2] == "measured on another machine"
    assert rows["image"] == ["2.00\xa0MB", "–", ""]


@pytest.mark.parametrize(
    ("tag", "value", "score", "speed"),
    [
        ("data_sha256", "other rows", "on other rows", "2×: cannot tell"),
        ("benchmark_valid", "False", "+0.0400", "a benchmark was disturbed"),
        ("measured_on", "b", "+0.0400", "measured on another machine"),
    ],
)
def test_what_does_not_compare_has_its_reason_in_the_place_of_a_ratio(tag, value, score, speed):
    new = run_with("new", **{"benchmark/p50_ms": 2.0, "train/test_accuracy": 0.84})
    old = run_with("old", **{"benchmark/p50_ms": 1.0, "train/test_accuracy": 0.8})
    new.tags[tag] = value
    rows = compared(new, old)
    assert (rows["test_accuracy"][2], rows["p50"][2]) == (score, speed)


def test_the_champion_is_the_version_of_that_alias_or_none(toy, job):
    assert job(toy, "--until", "prepare").returncode == 0
    uri = f"sqlite:///{toy}/.paddleship/mlflow.db"
    (made,) = runs.find(uri)
    assert runs.champion(uri, made.model) is None
    client = connect(uri)
    client.create_registered_model(made.model)
    assert runs.champion(uri, made.model) is None
    tags = {"image": "i:1", "image_id": "sha256:0", "candidate_digest": "0"}
    client.create_model_version(made.model, f"runs:/{made.run_id}/model", made.run_id, tags=tags)
    client.set_registered_model_alias(made.model, "champion", "1")
    assert runs.champion(uri, made.model) == ("1", made)
    assert runs.of_version(uri, f"{made.model}@champion") == runs.of_version(uri, f"{made.model}/1") == made
    assert runs.of_version(uri, made.name) is None
    with pytest.raises(BadInput, match="has no version '2'"):
        runs.of_version(uri, f"{made.model}/2")
    ended = Completed(state_details=StateDetails(flow_run_id=made.flow_run))
    ci_report.write(Local(toy), ended, {}, toy / "reports/ci.md", commit="0")
    assert "champion, version 1" in (toy / "reports/ci.md").read_text()


@pytest.fixture
def stale(toy):
    """The report of an earlier job in the same workspace."""
    path = toy / "reports/ci.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text("**All gates passed.**")
    return path


def in_checkout(toy, monkeypatch, **replaced):
    """`paddleship ci` in this process, with functions of its module replaced."""
    monkeypatch.chdir(toy)
    for name, function in replaced.items():
        monkeypatch.setattr(pipeline_commands, name, function)
    return CliRunner().invoke(pipeline_commands.ci, ["--until", "export"])


def raising(error):
    def function(*_, **__):
        raise error

    return function


def test_a_killed_job_leaves_a_report_that_says_so(toy, stale, monkeypatch):
    """A kill writes nothing more, so what is there while the job runs stays."""
    seen = []

    def job(*_, **__):
        seen.append(stale.read_text())
        return 0

    in_checkout(toy, monkeypatch, _ci_job=job)
    assert seen[0].startswith("**This job has not ended.**")


@pytest.mark.parametrize("function", ["open_checkout", "_ci_job"])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TypeError("no length"), "**Failed: Defect: the job ended by TypeError: no length: see its log"),
        (KeyboardInterrupt(), "**Failed: Defect: the job ended by KeyboardInterrupt"),
        (Unavailable("MLflow does not answer: start it"), "**Failed: Unavailable: MLflow does not answer: start it"),
    ],
)
def test_whatever_ends_a_job_replaces_the_report_of_an_earlier_one(toy, stale, monkeypatch, function, error, words):
    in_checkout(toy, monkeypatch, **{function: raising(error)})
    report = stale.read_text()
    assert report.startswith(words)
    commit = "unknown" if function == "open_checkout" else git(toy, "rev-parse", "HEAD").strip()
    assert report.endswith(f", commit `{commit}`.\n")


@pytest.mark.parametrize("when", ["before", "at the end"])
def test_a_full_disk_leaves_no_report_of_an_earlier_job(toy, stale, monkeypatch, when):
    def full(path, text):
        if when == "before" or "has not ended" not in text:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_text(path, text)

    monkeypatch.setattr(ci_report, "write_text", full)
    done = in_checkout(toy, monkeypatch, _ci_job=raising(BadInput("no rows")))
    assert done.exit_code
    assert not stale.exists() if when == "before" else stale.read_text().startswith("**This job has not ended.**")


@pytest.mark.parametrize(("state", "words"), [(Completed, "**All "), (Failed, "**Failed: Failed: no engine.**")])
def test_without_mlflow_the_report_has_what_waits_to_be_sent(toy, reviews_params, monkeypatch, state, words):
    local = Local(toy)
    tags = {"mlflow.runName": "reviews", "git_commit": "c0ffee", "prefect_flow_run": FLOW_RUN}
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    tracker = Tracker.start(reviews_params(), tracking_uri="http://127.0.0.1:9", artifact_root=None, spool=local.spool, tags=tags)
    folder = toy / "reports"
    for report in made.reports():
        report.write(folder)
        tracker.log_report(report, folder, cached=False)
    tracker.finish()
    ended = state(message="no engine", state_details=StateDetails(flow_run_id=FLOW_RUN))
    ci_report.write(local, ended, {"train": ["train.epochs"]}, folder / "ci.md", commit="c0ffee")
    report = (folder / "ci.md").read_text()
    assert report.startswith(words)
    assert "onnxruntime is 7.50× as fast as eager" in report
    assert "Its run in MLflow is not here: MLflow at http://127.0.0.1:9 does not answer" in report
    assert "* train: train.epochs" in report


def workflow():
    return yaml.safe_load((REPOSITORY / ".github/workflows/retrain.yml").read_text())["jobs"]["retrain"]


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        (".github/workflows/retrain.yml", ["vendor.github-workflows"]),
        (".gitlab-ci.yml", ["vendor.gitlab-ci", "--data-transform", "gitlab-ci"]),
    ],
)
def test_the_workflow_files_follow_their_schemas(path, schema, tmp_path):
    check = [str(ENVIRONMENT / "bin/check-jsonschema"), "--builtin-schema", *schema]
    assert subprocess.run([*check, REPOSITORY / path], check=False).returncode == 0
    wrong = tmp_path / "wrong.yml"
    wrong.write_text((REPOSITORY / path).read_text().replace("  timeout", "  time-out").replace("runs-on:", "runs-in:"))
    assert subprocess.run([*check, wrong], check=False, capture_output=True).returncode == 1


@pytest.fixture
def prepared(toy):
    """The toy with what the repository installs itself by; it is installed already."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        (toy / name).write_text((REPOSITORY / name).read_text())
        os.utime(toy / name, (0, 0))
    (toy / ".venv").symlink_to(ENVIRONMENT)
    return toy


def test_the_steps_of_the_workflow_run_as_they_are(prepared, environment, tmp_path):
    """Variables of the team that are not set are empty there."""
    given = dict.fromkeys(workflow()["env"], "") | {"UNTIL": "prepare", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    steps = [step["run"] for step in workflow()["steps"] if "run" in step and "github.event" not in step["run"]]
    assert len(steps) == 3
    for step in steps:
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step]
        done = subprocess.run(shell, cwd=prepared, env={**environment, **given}, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "summary.md").read_text().startswith("**All 1 gates up to prepare passed")


def test_make_ends_with_2_and_its_last_line_and_the_report_have_the_exit_code(prepared, let, environment):
    """GNU make has no other exit code for a command that failed."""
    let("prepare", "miss the gate")
    command, settings = ["make", "ci", "UNTIL=prepare"], {**environment, "LC_ALL": "C"}
    done = subprocess.run(command, cwd=prepared, env=settings, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 2
    assert re.fullmatch(r"make(\[\d+\])?: \*\*\* \[Makefile:\d+: ci\] Error 3", done.stderr.strip().splitlines()[-1])
    assert "Exit code 3, commit" in (prepared / "reports/ci.md").read_text()


def test_the_import_of_the_report_loads_neither_prefect_nor_mlflow_nor_dvc():
    """A job in which nothing changed needs none of them, and their imports would take most of its time."""
    probe = "import sys, paddleship.cli.ci_report; print({'prefect', 'mlflow', 'dvc'} & {name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", probe], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_both_services_call_the_same_commands():
    gitlab = yaml.safe_load((REPOSITORY / ".gitlab-ci.yml").read_text())["retrain"]["script"]
    assert gitlab == [step["run"] for step in workflow()["steps"] if step.get("run", "").startswith("make ")]
