"""The judge of `make chaos`: it names everything that is wrong after a fault, and nothing where all is right."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest
import yaml

from benchmarks.chaos import judge as judging
from benchmarks.chaos import shipping
from benchmarks.chaos.checkout import Checkout, Run
from benchmarks.chaos.clock import Clock
from benchmarks.chaos.judge import Undisturbed
from paddleship.system import locks

TABLE = "train      1.0s    ran        score 1   passed\nexport     –       unchanged  score 1   passed\n"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """What a run leaves, as far as the judge looks at it."""
    monkeypatch.setattr(judging, "_ENDS_S", 0.1)
    root = tmp_path / "toy"
    for folder in (".paddleship/prefect", ".paddleship/spool", ".dvc/tmp", "reports", "data"):
        (root / folder).mkdir(parents=True)
    lock = {"stages": {"train": {"outs": [{"path": "train.txt", "md5": "1"}, {"path": "reports/train.json", "md5": "2"}]}}}
    (root / "dvc.lock").write_text(yaml.safe_dump(lock))
    (root / "train.txt").write_text("whole")
    (root / ".dvc/tmp/rwlock").write_text("{}")
    for name, statements in DATABASES.items():
        with sqlite3.connect(root / ".paddleship" / name) as database:
            database.executescript(statements)
    return Checkout(root, "export")


DATABASES = {
    "mlflow.db": "create table runs (run_uuid, name, status, lifecycle_stage); create table tags (run_uuid, key, value);"
    "insert into runs values ('1', 'first', 'KILLED', 'active'); insert into tags values ('1', 'reason', 'Killed');"
    "insert into runs values ('2', 'second', 'FINISHED', 'active');",
    "prefect/prefect.db": "create table flow_run (name, state_type); insert into flow_run values ('first', 'CRASHED');",
}


def judged(checkout, expected=None, *, code=0, kept=()):
    return judging.judge(checkout, Run(code, TABLE), expected or Undisturbed.of(checkout, 1.0), kept=kept)


def test_the_state_after_a_run_is_right(checkout):
    assert judged(checkout, kept=["export"]) == (0, [])


def test_a_finished_stage_that_ran_again_is_counted(checkout):
    assert judged(checkout, kept=["train", "export"]) == (1, [])


def half_written(checkout):
    (checkout.root / "reports/.train.json.x8a").write_text("{")


def empty_folder(checkout):
    (checkout.root / ".models.part").mkdir()


def worktree(checkout):
    (checkout.root / ".paddleship/runs/3").mkdir(parents=True)


def spooled(checkout):
    (checkout.root / ".paddleship/spool/now").mkdir()
    (checkout.root / ".paddleship/spool/now/run.json").write_text("{}")


def dvc_lock(checkout):
    (checkout.root / ".dvc/tmp/rwlock").write_text(json.dumps({"train.txt": {"write": {"pid": 1}}}))


def other_out(checkout):
    path = checkout.root / "dvc.lock"
    path.write_text(path.read_text().replace("'1'", "'3'"))


def sql(name, statement):
    def change(checkout):
        with sqlite3.connect(checkout.root / ".paddleship" / name) as database:
            database.execute(statement)

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (half_written, "reports/.train.json.x8a is left"),
        (empty_folder, ".models.part is left"),
        (worktree, "the worktree 3 is left"),
        (spooled, "the spool entry now is left"),
        (dvc_lock, "DVC's rwlock names a process"),
        (other_out, "train.txt differs from that of an undisturbed run"),
        (sql("mlflow.db", "update runs set status = 'RUNNING' where name = 'second'"), "MLflow shows the run second as RUNNING"),
        (sql("mlflow.db", "delete from tags"), "MLflow gives no reason for first"),
        (sql("prefect/prefect.db", "update flow_run set state_type = 'RUNNING'"), "Prefect shows the run first as RUNNING"),
        (sql("prefect/prefect.db", "update flow_run set state_type = 'PENDING'"), "Prefect shows the run first as PENDING"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_named(checkout, change, words):
    expected = Undisturbed.of(checkout, 1.0)
    change(checkout)
    assert words in judged(checkout, expected)[1]


def test_a_command_that_failed_is_named_with_its_last_words(checkout):
    assert judged(checkout, code=4)[1] == ["exit code 4 (export     –       unchanged  score 1   passed)"]


def test_a_lock_that_is_held_is_named(checkout):
    with locks.wait_for(checkout.root / ".paddleship/x.lock"):
        assert "the lock x.lock is held" in judged(checkout)[1]


def test_a_process_that_is_left_is_named_and_power_off_ends_it(checkout):
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env=checkout.env()) as process:
        assert f"process {process.pid} is left" in judged(checkout)[1]
        checkout.power_off()
    assert process.returncode == -9
    assert judged(checkout) == (0, [])


def test_a_stage_may_run_once_and_once_more_if_it_was_disturbed():
    said = [f"Running stage 'prepare':\nRunning stage '{stage}':\n" for stage in ("train", "export")]
    assert shipping._too_often(said, ["prepare", "train"]) == 0
    assert shipping._too_often(said, ["train"]) == 1
    assert shipping._too_often(said * 2, ["train"]) == 4


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="needs a C compiler")
def test_the_wall_clock_of_a_process_jumps_and_its_other_clocks_go_on(tmp_path):
    clock = Clock.make(tmp_path)
    code = "import time\nwhile input() != 'end': print(time.time(), time.monotonic(), flush=True)"
    environment = {**os.environ, **clock.environment}
    with subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:

        def ahead():
            process.stdin.write("\n")
            wall, monotonic = map(float, process.stdout.readline().split())
            return wall - monotonic

        began = ahead()
        for jump in (86_400, -86_400):
            clock.jump_to(jump)
            assert ahead() - began == pytest.approx(jump, abs=1)
        process.stdin.write("end\n")
