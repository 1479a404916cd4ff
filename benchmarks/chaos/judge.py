"""Whether a checkout is in the right state after a fault and the same command again: work, outs, what lies about, and tracking."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.chaos.checkout import Checkout, Run, wait_until
from paddleship.system import locks

_RANDOM = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{30,}|-\d+$")
_UNREAD = (".git", ".dvc/cache", ".paddleship/artifacts", ".paddleship/prefect", ".paddleship/client")
_LEFT = (
    "__pycache__",
    ".defect.log",
    ".db-journal",
    ".db-wal",
    ".db-shm",
    ".server.json",
    ".paddleship/mlflow.log",
    ".paddleship/prefect.log",
)
_UNENDED = ("RUNNING", "PENDING", "CANCELLING", "SCHEDULED")
_ENDS_S = 15  # for processes to notice that their command has ended


@dataclass(frozen=True)
class Undisturbed:
    """What a run without a fault leaves: the digests of its outs by path, its files, and the seconds that it takes."""

    outs: dict[str, str]
    files: set[str]
    seconds: float

    @classmethod
    def of(cls, checkout: Checkout, seconds: float) -> Undisturbed:
        return cls(outs(checkout.root), files(checkout.root), seconds)


def outs(root: Path) -> dict[str, str]:
    """The digest of every out in the locks, without what holds times of its own: reports, samples, the receipt and the release."""
    found: dict[str, str] = {}
    for path in (root / "dvc.lock", root / "data/dvc.lock"):
        stages = yaml.safe_load(path.read_text(encoding="utf-8"))["stages"] if path.exists() else {}
        found |= {out["path"]: out["md5"] for stage in stages.values() for out in stage.get("outs", []) if "md5" in out}
    timed = ("reports", "models/benchmark", "image.json", "release.json", "environment.json", "host.json")
    return {path: digest for path, digest in found.items() if not path.startswith(timed)}


def files(root: Path) -> set[str]:
    """The files and empty folders of a checkout by their names, where an id counts as any other id."""
    names = (str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() or (path.is_dir() and not any(path.iterdir())))
    return {_RANDOM.sub("*", name) for name in names if not name.startswith(_UNREAD) and not any(part in name for part in _LEFT)}


def judge(checkout: Checkout, done: Run, expected: Undisturbed, *, kept: Collection[str]) -> tuple[int, list[str]]:
    """The number of finished stages that ran again, and everything else that is wrong; `kept` are the stages that had finished."""
    again = [stage for stage, how in done.stages().items() if stage in kept and how == "ran"]
    wrong = [f"exit code {done.code} ({_last_line(done.said)})"] if done.code else []
    found = outs(checkout.root)
    wrong += [f"{path} differs from that of an undisturbed run" for path, digest in expected.outs.items() if found.get(path) != digest]
    wrong += [f"{name} is left" for name in sorted(files(checkout.root) - expected.files)]
    return len(again), wrong + left(checkout) + untrue(checkout.root)


def left(checkout: Checkout) -> list[str]:
    """Processes, locks and worktrees that no living run has."""
    wait_until(lambda: not checkout.processes(), within_s=_ENDS_S)
    found = [f"process {process.pid} is left" for process in checkout.processes()]
    for folder in (checkout.root / ".paddleship", checkout.root / ".dvc/tmp", checkout.root.parent / "locks", checkout.root / "reports"):
        found += [f"the lock {path.name} is held" for path in folder.rglob("*.lock") if _is_held(path)]
    found += [f"the worktree {path.name} is left" for path in (checkout.root / ".paddleship/runs").glob("*")]
    found += [f"the spool entry {path.parent.name} is left" for path in (checkout.root / ".paddleship/spool").glob("*/run.json")]
    held = checkout.root / ".dvc/tmp/rwlock"
    if held.exists() and any(any(kinds.values()) for kinds in json.loads(held.read_text(encoding="utf-8") or "{}").values()):
        found.append("DVC's rwlock names a process")
    return found


def untrue(root: Path) -> list[str]:
    """What MLflow and Prefect say of runs that have ended."""
    mlflow = _ask(root / ".paddleship/mlflow.db", "select status, name from runs where lifecycle_stage = 'active'")
    flows = _ask(root / ".paddleship/prefect/prefect.db", "select state_type, name from flow_run")
    found = [f"MLflow shows the run {name} as {status}" for status, name in mlflow if status in _UNENDED]
    found += [f"Prefect shows the run {name} as {state}" for state, name in flows if state in _UNENDED]
    query = (
        "select name from runs r where status in ('KILLED', 'FAILED') and not exists "
        "(select 1 from tags t where t.run_uuid = r.run_uuid and t.key = 'reason')"
    )
    return found + [f"MLflow gives no reason for {name}" for (name,) in _ask(root / ".paddleship/mlflow.db", query)]


def _ask(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path, timeout=30)) as database:
        return list(database.execute(query))


def _is_held(path: Path) -> bool:
    lock = locks.take(path)
    if lock is not None:
        lock.lock.release()
    return lock is None


def _last_line(said: str) -> str:
    return (said.strip().splitlines() or ["no output"])[-1][:200]
