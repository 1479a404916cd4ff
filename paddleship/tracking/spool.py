"""The spool: one folder per run with data for MLflow, until everything was sent.

An entry holds `run.json` (experiment, params, tags, run id), `reports/` and, after a release, `candidate/` and `release.json`. The process
that works on it holds its lock; the lock of a killed process is free.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paddleship.errors import BadInput
from paddleship.reports.order import in_order
from paddleship.reports.report import Report
from paddleship.shipped.computing.files import write_text
from paddleship.system import locks

LOCK = ".lock"


@contextmanager
def abandoned(entry: Path) -> Iterator[bool]:
    """Hold the lock of an entry; False if its run, or another delivery, holds it."""
    if not entry.exists() or (lock := locks.take(entry / LOCK)) is None:
        yield False
        return
    with lock:
        yield (entry / "run.json").exists()


def is_held(entry: Path) -> bool:
    """Whether the run of an entry is active."""
    return locks.is_held(entry / LOCK)


def write(entry: Path, facts: Mapping[str, Any]) -> None:
    write_text(entry / "run.json", json.dumps(facts, indent=1))


def read(entry: Path) -> dict[str, Any]:
    """What an entry says about its run. Raises BadInput."""
    try:
        facts: dict[str, Any] = json.loads((entry / "run.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise BadInput(f"{str(entry / 'run.json')!r} is damaged ({error}): restore it, or remove its folder") from None
    return facts


def reports(entry: Path) -> list[Report]:
    """The reports of a spool entry in the order of their stages."""
    return in_order(Report.read(path.parent, path.stem) for path in (entry / "reports").glob("*.json"))


def of_flow_run(folder: Path, flow_run: str) -> list[Report]:
    """The reports of a flow run that wait in the spool; none if they were sent."""
    for path in folder.glob("*/run.json"):
        if read(path.parent)["tags"].get("prefect_flow_run") == flow_run:
            return reports(path.parent)
    return []
