"""Many stored runs: copies of one that was real, in MLflow's and Prefect's databases, in DVC's cache of runs, and as experiments in git."""

from __future__ import annotations

import secrets
import sqlite3
import subprocess
import uuid
from contextlib import closing
from pathlib import Path

_MLFLOW = {  # table → which of its rows belong to the run
    "runs": "run_uuid = :run",
    **dict.fromkeys(("params", "metrics", "latest_metrics", "tags"), "run_uuid = :run"),
}
_PREFECT = {
    "flow_run": "id = :run",
    **dict.fromkeys(("flow_run_state", "task_run", "artifact", "log"), "flow_run_id = :run"),
    "task_run_state": "task_run_id in (select id from task_run where flow_run_id = :run)",
    "events": "id in (select event_id from event_resources where resource_id = 'prefect.flow-run.' || :run)",
    "event_resources": "event_id in (select event_id from event_resources where resource_id = 'prefect.flow-run.' || :run)",
}
_DATABASES = {
    ".paddleship/mlflow.db": ("select run_uuid from runs order by start_time desc", _MLFLOW),
    ".paddleship/prefect/prefect.db": ("select id from flow_run order by start_time desc", _PREFECT),
}


def add(checkout: Path, count: int) -> None:
    """Make `count` copies of the last run of a checkout: what it left in both databases and in DVC's caches of runs, and an experiment."""
    for path, (runs, tables) in _DATABASES.items():
        with closing(sqlite3.connect(checkout / path, timeout=30)) as database, database:
            _copy(database, tables, database.execute(runs).fetchone()[0], count)
    _copy_entries(checkout, count)
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=checkout, check=True, capture_output=True, encoding="utf-8", errors="replace"
    ).stdout.strip()
    folder = f"refs/exps/{commit[:2]}/{commit[2:]}"
    lines = "".join(f"create {folder}/run-{uuid.uuid4().hex[:8]} {commit}\n" for _ in range(count))
    subprocess.run(["git", "update-ref", "--stdin"], cwd=checkout, input=lines, encoding="utf-8", errors="replace", check=True)


def _copy_entries(checkout: Path, times: int) -> None:
    """Copy every entry of DVC's cache of runs `times` times, here and in the remote, under other names, as runs with other inputs have."""
    from dvc.repo import Repo

    with closing(Repo(str(checkout))) as repo:
        caches = [Path(repo.cache.legacy.path) / "runs", Path(repo.cloud.get_remote_odb(hash_name="md5-dos2unix").path) / "runs"]
    entries = [path.read_bytes() for path in caches[0].rglob("*") if path.is_file()]
    for content in entries * times:
        key, value = secrets.token_hex(32), secrets.token_hex(32)
        for cache in caches:
            folder = cache / key[:2] / key
            folder.mkdir(parents=True)
            (folder / value).write_bytes(content)


def count(checkout: Path) -> int:
    """The number of runs that are stored in both databases; the smaller one if they differ."""
    found = []
    for path, (runs, _tables) in _DATABASES.items():
        with closing(sqlite3.connect(checkout / path, timeout=30)) as database:
            found.append(len(database.execute(runs).fetchall()))
    return min(found)


def _copy(database: sqlite3.Connection, tables: dict[str, str], run: str, times: int) -> None:
    """Insert the rows of a run again, `times` times, with new ids wherever they stand."""
    rows = {table: database.execute(f"select * from {table} where {which}", {"run": run}).fetchall() for table, which in tables.items()}  # noqa: S608 ours
    own = {run}
    for table, found in rows.items():
        columns = [column[1] for column in database.execute(f"pragma table_info({table})")]
        own |= {row[columns.index("id")] for row in found if "id" in columns}
    for _ in range(times):
        new = {old: str(uuid.uuid4()) if "-" in old else uuid.uuid4().hex for old in own}
        for table, found in rows.items():
            copies = [[new.get(value, value.replace(run, new[run]) if isinstance(value, str) else value) for value in row] for row in found]
            if copies:
                database.executemany(f"insert into {table} values ({', '.join('?' * len(copies[0]))})", copies)  # noqa: S608 ours
