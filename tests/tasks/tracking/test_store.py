"""MLflow's SQLite store of a checkout after a killed creation, of another version, without content, and on a full disk."""

import errno
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from paddleship.errors import Unavailable
from paddleship.tracking import store
from paddleship.tracking.client import connect
from tests.flows.helpers import REPOSITORY


def killed_at(uri, number):
    """Connect in a process that is killed before it creates this table; whether it was."""
    command = [sys.executable, "-m", "tests.tasks.tracking.kill_at_statement", uri, str(number)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode == -9


def run_once(uri):
    client = connect(uri)
    return client.create_run(client.create_experiment("after")).info.run_id


@pytest.mark.parametrize("number", [1, 5, 20])
def test_after_a_kill_while_the_tables_are_created_the_next_command_is_right(tmp_path, number):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    assert killed_at(uri, number)
    assert not (tmp_path / "mlflow.db").exists()
    assert run_once(uri)
    assert sorted(path.name for path in tmp_path.iterdir() if "lock" not in path.name) == ["mlflow.db"]


@pytest.mark.long
@pytest.mark.timeout(1800)  # 98 kills, and two processes for each
def test_after_a_kill_at_any_table_the_next_command_is_right(tmp_path):
    """98 tables with MLflow 3.17, because a migration that copies a table creates it again."""
    number = 1
    while killed_at(uri := f"sqlite:///{tmp_path / str(number)}/mlflow.db", number):
        assert run_once(uri)
        number += 1
    assert number > 40


@pytest.fixture
def incomplete(tmp_path, mlflow_db):
    """A store as MLflow itself leaves it when it is killed between two migrations."""
    path = tmp_path / "mlflow.db"
    shutil.copy(mlflow_db, path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("update alembic_version set version_num = '451aebb31d03'")
        database.execute("drop table webhook_events")
        database.commit()
    return path


def test_an_incomplete_store_without_runs_is_moved_aside_and_created_again(incomplete, capsys):
    store.prepare(f"sqlite:///{incomplete}")
    assert run_once(f"sqlite:///{incomplete}")
    (aside,) = incomplete.parent.glob("mlflow.db.incomplete-*")
    warning = capsys.readouterr().err
    assert warning.startswith("warning: MLflow's store was incomplete (its tables are of schema 451aebb31d03, not ")
    assert warning.count("\n") == 1
    assert str(aside) in warning


@pytest.mark.parametrize("content", [b"", None], ids=["an empty file", "a table and no schema version"])
def test_a_store_that_was_just_begun_is_created_again(tmp_path, content):
    path = tmp_path / "mlflow.db"
    if content is None:
        with closing(sqlite3.connect(path)) as database:
            database.execute("create table experiments (experiment_id integer)")
    else:
        path.write_bytes(content)
    assert run_once(f"sqlite:///{path}")


def test_an_incomplete_store_with_runs_is_never_moved_and_its_error_names_the_next_step(incomplete):
    with closing(sqlite3.connect(incomplete)) as database:
        database.execute("insert into experiments (experiment_id, name, lifecycle_stage) values (7, 'reviews', 'active')")
        database.commit()
    with pytest.raises(Unavailable, match=r"schema 451aebb31d03, not \w+\), and holds runs or models: copy the file, then `.*db upgrade"):
        connect(f"sqlite:///{incomplete}")
    assert [path.name for path in incomplete.parent.glob("mlflow.db*") if "lock" not in path.name] == ["mlflow.db"]


def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path):
    path = tmp_path / "mlflow.db"
    path.write_bytes(b"not a database, but somebody's file" * 100)
    with pytest.raises(Unavailable, match=r"mlflow.db cannot be read \(file is not a database\): restore a copy, or move it away"):
        connect(f"sqlite:///{path}")
    assert path.read_bytes().startswith(b"not a database")


def test_files_of_sqlite_beside_a_deleted_store_are_not_applied_to_the_new_one(tmp_path):
    (tmp_path / "mlflow.db-wal").write_bytes(b"of a deleted store")
    assert run_once(f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert not (tmp_path / "mlflow.db-wal").exists()


def test_a_full_disk_leaves_no_part_of_a_store(tmp_path, monkeypatch):
    def full(path):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "_make_tables", full)
    with pytest.raises(Unavailable, match=r"cannot be used \(.*No space left on device.*free disk space"):
        connect(f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert not [path for path in Path(tmp_path).iterdir() if "lock" not in path.name]


def test_a_complete_store_is_opened_as_it_is(tmp_path, mlflow_db, capsys):
    path = tmp_path / "mlflow.db"
    shutil.copy(mlflow_db, path)
    before = path.stat().st_ino
    assert run_once(f"sqlite:///{path}")
    assert path.stat().st_ino == before
    assert capsys.readouterr().err == ""
