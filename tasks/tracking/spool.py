"""The spool: one folder per run with what MLflow shall get, until it has it all.

An entry holds `run.json` (experiment, params, tags, run id), `reports/` and, after a release, `candidate/` and
`release.json`. Its lock is held by the process that works on it; the lock of a killed process is free.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from paddleship.reports.report import Report
from paddleship.shipped.common.files import write_text

LOCK = ".lock"


def hold(path: Path) -> IO[str]:
    """Wait for the lock `path` and hold it until what is returned is closed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


@contextmanager
def abandoned(entry: Path) -> Iterator[bool]:
    """Hold the lock of an entry; False when its run, or another delivery, holds it."""
    try:
        lock = (entry / LOCK).open("w")
    except FileNotFoundError:  # delivered by another process just now
        yield False
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield (entry / "run.json").exists()


def write(entry: Path, facts: Mapping[str, Any]) -> None:
    write_text(entry / "run.json", json.dumps(facts, indent=1))


def read(entry: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((entry / "run.json").read_text())
    return facts


def reports(entry: Path) -> list[Report]:
    """The reports of a spool entry in the order of their stages."""
    found = [Report.read(path.parent, path.stem) for path in (entry / "reports").glob("*.json")]
    return sorted(found, key=lambda report: report.started_at.timestamp() if report.started_at else 0)
