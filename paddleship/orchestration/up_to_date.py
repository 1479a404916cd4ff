"""Detect a run that has nothing to do, before Prefect is needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from paddleship.config import loading
from paddleship.containers import image
from paddleship.errors import Unavailable, without_credentials
from paddleship.execution import stages
from paddleship.execution.repro import StageStatus
from paddleship.execution.stages import Until
from paddleship.orchestration import crashed_runs, summary
from paddleship.orchestration.summary import Row
from paddleship.reports.order import STAGES
from paddleship.reports.report import Report
from paddleship.servers.local_state import Local
from paddleship.shipped.computing.files import write_text
from paddleship.stage.fingerprint import fingerprint

_FILE = "last_run.json"


@dataclass(frozen=True)
class LastRun:
    """A run that passed in the checkout: its last stage, its results, whether it registered a model, and links to its pages."""

    until: Until
    dvc_lock_sha256: str
    tracking_uri: str
    registered: bool
    links: Mapping[str, str | None]


def note(checkout: Path, local: Local, until: Until, *, registered: bool, links: Mapping[str, str | None]) -> None:
    """Record a run that passed and is complete in MLflow, for the next run."""
    last = LastRun(until, stages.lock_sha256(checkout), without_credentials(local.tracking_uri()), registered, links)
    write_text(local.state / _FILE, json.dumps(asdict(last), indent=1) + "\n")


def show(checkout: Path, local: Local, until: Until, *, register: bool) -> bool:
    """Print the summary of the last run if it did all that is asked for, and nothing changed since. Returns False if it has to run.

    Raises ParamsError.
    """
    values = loading.load(checkout / "params.yaml")
    last = _last(local)
    if last is None or local.unpushed.exists() or crashed_runs.any_left(local) or last.dvc_lock_sha256 != stages.lock_sha256(checkout):
        return False
    if register and not last.registered:
        return False
    if last.tracking_uri != without_credentials(local.tracking_uri()):
        return False
    if STAGES.index(last.until) < STAGES.index(until):
        return False
    fingerprint(values, checkout)
    graph = stages.graph(checkout, until=until)
    if not stages.are_current(checkout, *graph) or _lacks_image(checkout / values.paths.image, until):
        return False
    if until == "accept" and (line := image.restore_name(checkout / values.paths.image)):
        print(line)
    reports = checkout / values.paths.reports
    reported = {stage.name: (reports / f"{stage.name}.json").exists() for stage in graph}
    rows = [Row(name, StageStatus.UNCHANGED, Report.read(reports, name) if has_report else None) for name, has_report in reported.items()]
    summary.show(rows, checkout, values, local, links=last.links)
    return True


def _last(local: Local) -> LastRun | None:
    """The last run, if there was one and this version wrote it."""
    try:
        return LastRun(**json.loads((local.state / _FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _lacks_image(receipt: Path, until: Until) -> bool:
    """Whether the run needs an image that may be missing; an unavailable engine is reported by the run itself."""
    try:
        return until in ("package", "accept") and image.is_gone(receipt)
    except Unavailable:
        return True
