"""The SQLite store of MLflow in a checkout: created beside its path and renamed, and checked before MLflow opens it.

MLflow creates its tables one by one. A process that is killed meanwhile leaves a file that MLflow neither opens nor repairs.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from paddleship.errors import Unavailable
from paddleship.system import locks

_SCHEME = "sqlite:///"
_BESIDE = ("-journal", "-wal", "-shm")  # files of SQLite; applied to another database of the same name, they would destroy it
_FIRST = "0"  # the id of the experiment that MLflow creates with its tables
_VERSION = "alembic_version"
_checked: set[tuple[str, int]] = set()  # stores that this process has checked


def prepare(uri: str) -> None:
    """Create a SQLite store, or check that it is complete; a store of another kind is left alone. Raises Unavailable.

    A partial store without any run or model is moved aside. The lock lets one process at a time do so.
    """
    path = _path(uri)
    if path is None or _key(path) in _checked:
        return
    try:
        with locks.wait_for(path.with_name(f"{path.name}.new.lock")):
            if path.exists() and (fault := _fault(path)):
                _move_aside(path, fault)
            if not path.exists():
                _create(path)
            _checked.add(_key(path))
    except OSError as error:
        raise Unavailable(f"MLflow's store {path} cannot be used ({error}): free disk space, or correct the folder's permissions") from None


@contextmanager
def first_use(uri: str) -> Iterator[None]:
    """Let one process at a time create what MLflow needs only once in a SQLite store."""
    prepare(uri)
    path = _path(uri)
    if path is None:
        yield
        return
    with locks.wait_for(path.with_name(f"{path.name}.lock")):
        yield


def _path(uri: str) -> Path | None:
    return Path(uri.removeprefix(_SCHEME)) if uri.startswith(_SCHEME) else None


def _key(path: Path) -> tuple[str, int]:
    """What identifies a store; another file at its path has another key."""
    return str(path), path.stat().st_ino if path.exists() else 0


def _create(path: Path) -> None:
    """Create a store with all tables under a temporary name, write it to the disk, and rename it."""
    beside = path.with_name(f".{path.name}.part")
    _remove(beside)
    try:
        _make_tables(beside)
        handle = os.open(beside, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        for suffix in _BESIDE:  # of a store that somebody deleted
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        beside.rename(path)
    finally:
        _remove(beside)


def _make_tables(path: Path) -> None:
    from mlflow.store.db.utils import _initialize_tables
    from sqlalchemy import create_engine
    from sqlalchemy.exc import SQLAlchemyError
    from sqlalchemy.pool import NullPool

    engine = create_engine(f"{_SCHEME}{path}", poolclass=NullPool)
    try:
        _initialize_tables(engine)
    except SQLAlchemyError as error:
        raise OSError(str(getattr(error, "orig", error))) from None
    finally:
        engine.dispose()


def _remove(path: Path) -> None:
    for suffix in ("", *_BESIDE):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def _fault(path: Path) -> str | None:
    """Why MLflow cannot use an existing store; None if it can."""
    from mlflow.store.db.utils import _get_latest_schema_revision

    try:
        with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=20)) as database:
            tables = _tables(database)
            versions = [row[0] for row in database.execute(f"select version_num from {_VERSION}")] if _VERSION in tables else []  # noqa: S608
    except sqlite3.DatabaseError as error:
        if "locked" in str(error):  # by a running command, so MLflow has opened it
            return None
        raise Unavailable(f"MLflow's store {path} cannot be read ({error}): {_next_step(path)}") from None
    latest = _get_latest_schema_revision()
    if versions == [latest]:
        return None
    return f"its tables are of schema {versions[0]}, not {latest}" if versions else f"it has {len(tables)} tables and no schema version"


def _tables(database: sqlite3.Connection) -> list[str]:
    return [row[0] for row in database.execute("select name from sqlite_master where type = 'table' and name not like 'sqlite_%'")]


def _move_aside(path: Path, fault: str) -> None:
    """Rename a store without content, with the files of SQLite that belong to it. Raises Unavailable for any other."""
    if not _is_empty(path):
        raise Unavailable(
            f"MLflow's store {path} is incomplete or of another MLflow version ({fault}), and holds runs or models: copy the file, then "
            f"`{Path(sys.executable).with_name('mlflow')} db upgrade {_SCHEME}{path}`; if that fails, {_next_step(path)}"
        )
    aside = path.with_name(f"{path.name}.incomplete-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}")
    for suffix in (*_BESIDE, ""):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    print(f"warning: MLflow's store was incomplete ({fault}) and held no run: moved to {aside}, and created again", file=sys.stderr)


def _is_empty(path: Path) -> bool:
    """Whether a store has only the rows that MLflow writes with its tables: schema version, default experiment, default workspace."""
    with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=20)) as database:
        for table in _tables(database):
            rows = list(database.execute(f'select * from "{table}" limit 2'))  # noqa: S608 a name that SQLite gave
            if table == _VERSION or not rows:
                continue
            if table == "experiments":
                rows = list(database.execute("select experiment_id from experiments limit 2"))
                if [str(row[0]) for row in rows] == [_FIRST]:
                    continue
            if table == "workspaces" and len(rows) == 1:
                continue
            return False
    return True


def _next_step(path: Path) -> str:
    return f"restore a copy, or move it away (`mv {path} {path}.old`), and the next command creates a new one"
