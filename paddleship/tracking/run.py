"""Log a pipeline run as an MLflow run, with a child run per candidate, and register the winner.

Evidence is written to a spool folder first and sent from there. If the tracking server goes away, the run continues, and `deliver`
sends the rest later with the same code.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from paddleship.config.params import Params
from paddleship.config.sections.code import Code
from paddleship.custody import sources
from paddleship.errors import Cancelled, PaddleshipError, Unavailable
from paddleship.lineage.source import CODE, SOURCE_FOLDER, differs
from paddleship.reports.report import Report
from paddleship.system import locks
from paddleship.tracking import view
from paddleship.tracking.client import connect, describe_error
from paddleship.tracking.sending import close_run, open_run, send_model, send_report
from paddleship.tracking.spool import LOCK, abandoned, read, reports, write

# Facts of reports that runs are searched and compared by.
_TAGGED = ("data_sha256", "code_sha256", "winner", "measured_on", "benchmark_valid", "image", "image_id")
_MAX_CODE_BYTES = 20_000_000


class Tracker:
    """One pipeline run in MLflow. Never raises: at the first error it warns, and keeps the rest in the spool.

    `run_id` is None until the server was reached. `undelivered` is the spool folder of this run while something of it is not in MLflow. The
    entry is locked while the run is active, so that `deliver` leaves it alone.
    """

    def __init__(self, entry: Path, tracking_uri: str, facts: dict[str, Any]) -> None:
        self._entry, self._uri, self._facts = entry, tracking_uri, facts
        self._trouble: str | None = None
        self._lost = False
        self._lock: Any = None

    @classmethod
    def start(cls, params: Params, *, tracking_uri: str, artifact_root: str | None, spool: Path, tags: Mapping[str, str]) -> Tracker:
        """Open the run. `tags` identify it (git commit, flow run); the spool entry is named after the time."""
        entry = spool / f"{time.strftime('%Y%m%dT%H%M%S')}-{uuid.uuid4().hex[:8]}"
        facts = {"experiment": params.name, "artifact_root": artifact_root, "params": _logged(params), "tags": dict(tags), "run_id": None}
        tracker = cls(entry, tracking_uri, facts)
        if not tracker._keep(tracker._claim):
            tracker._trouble = "there is no spool"
        tracker._send(lambda: open_run(entry, tracking_uri))
        return tracker

    @property
    def run_id(self) -> str | None:
        run_id: str | None = self._facts["run_id"]
        return run_id

    @property
    def params(self) -> Mapping[str, str]:
        """The params of the run by path, as MLflow shows them."""
        params: Mapping[str, str] = self._facts["params"]
        return params

    @property
    def url(self) -> str | None:
        """The address of the run's page; None without a server."""
        return view.page(self._uri, self._facts.get("experiment_id"), self.run_id) if self.run_id else None

    @property
    def view_url(self) -> str | None:
        """The address of the comparison of all runs in the experiment; None without a server."""
        experiment = self._facts.get("experiment_id")
        return view.link(self._uri, experiment) if self._uri.startswith("http") and experiment else None

    def share_sweep(self, name: str, *, title: str) -> str | None:
        """Share the view of a sweep's winners, under a title. Returns its address; None without a server."""
        experiment = self._facts.get("experiment_id")
        if not experiment:
            return None
        shared = view.of_sweep(name, title)
        self._send(lambda: view.share(connect(self._uri), experiment, shared))
        return view.link(self._uri, experiment, shared) if self._uri.startswith("http") else None

    @property
    def trouble(self) -> str | None:
        """Why MLflow did not get all of this run, and the next step; None if it has everything so far."""
        return self._trouble

    @property
    def undelivered(self) -> Path | None:
        return self._entry if self._trouble and self._entry.exists() else None

    def log_report(self, report: Report, folder: Path, *, cached: bool) -> None:
        """Log metrics, verdict, candidates and pictures of a stage; `cached`: the stage itself did not run now."""
        if self._keep(lambda: self._note(report, folder, cached=cached)):
            self._send(lambda: send_report(self._entry, self._uri, report, history=cached))

    def log_page(self, page: Path) -> None:
        """Log the page of the run; sent when the run is closed."""

        def copy() -> None:
            shutil.copy(page, self._entry / page.name)

        self._keep(copy)

    def page_address(self, name: str) -> str | None:
        """Where MLflow has a page of the run: its address, or its file without a server; None if it is not there."""
        if self.url:
            return f"{self.url.partition('?')[0]}/artifacts/{name}"
        root = unquote(urlsplit(self._facts["artifact_root"] or "").path)
        path = Path(root, self._facts["experiment"], self.run_id or "", "artifacts", name)
        return str(path) if path.is_file() else None

    def log_source(self, root: Path, code: Code) -> None:
        """Log params and lock of the run, and the user's code if it differs from every commit; sent when the run is closed."""

        def copy() -> None:
            (self._entry / SOURCE_FOLDER).mkdir(exist_ok=True)
            for name in ("params.yaml", "dvc.lock"):
                if (root / name).exists():
                    shutil.copy(root / name, self._entry / SOURCE_FOLDER / name)
            committed = sources.is_below(code, root) and not differs(root, code.watch)
            if not committed and not sources.copy(code, self._entry / CODE, max_bytes=_MAX_CODE_BYTES):
                print(f"warning: code.watch {code.watch!r} has over {_MAX_CODE_BYTES / 1e6:.0f} MB: MLflow gets no copy", file=sys.stderr)

        self._keep(copy)

    def register(self, candidate: Path, release: Path) -> str | None:
        """Register the accepted candidate. Returns the name of its model version."""

        def copy() -> None:
            shutil.copytree(candidate, self._entry / "candidate", dirs_exist_ok=True)
            shutil.copy(release, self._entry / "release.json")

        version: str | None = self._send(lambda: send_model(self._entry, self._uri)) if self._keep(copy) else None
        return version

    def finish(self, failure: PaddleshipError | None = None, *, tags: Mapping[str, str] | None = None) -> None:
        """Close the run as finished, or with the reason as failed or cancelled, and delete the spool entry when everything was sent."""
        self._facts["tags"] |= tags or {}
        status = "KILLED" if isinstance(failure, Cancelled) else "FAILED"
        self._close(_ended(status, failure.outcome, str(failure)) if failure else {"status": "FINISHED"})

    def stop(self, error: BaseException) -> None:
        """Close the run after an exception: as killed for an interrupt, otherwise as failed by a defect."""
        reason = f"ended by {type(error).__name__}"
        if isinstance(error, PaddleshipError):
            self.finish(error)
        elif isinstance(error, Exception):
            self._close(_ended("FAILED", "Defect", reason))
        else:
            self._close(_ended("KILLED", Cancelled.outcome, reason))

    def _close(self, end: Mapping[str, Any]) -> None:
        self._facts["tags"] |= end.get("tags", {})
        self._facts["status"] = end["status"]
        self._keep(lambda: write(self._entry, self._facts))
        if self._send(lambda: close_run(self._entry, self._uri)):
            shutil.rmtree(self._entry, ignore_errors=True)
        else:
            self._facts["waits"] = True
            self._keep(lambda: write(self._entry, self._facts))
        if self._lock:
            self._lock.lock.release()

    def _claim(self) -> None:
        self._lock = locks.wait_for(self._entry / LOCK)  # before there is anything to deliver
        write(self._entry, self._facts)

    def _note(self, report: Report, folder: Path, *, cached: bool) -> None:
        """Write the evidence of a stage into the spool entry."""
        tags = self._facts["tags"]
        for tag, applies in (("stages_passed", bool(report.verdict)), ("stages_failed", not report.verdict), ("stages_cached", cached)):
            if applies:
                tags[tag] = f"{tags.get(tag, '')} {report.stage}".strip()
        if kinds := [finding.kind for finding in report.serious()]:
            tags["findings"] = "; ".join(filter(None, (tags.get("findings"), f"{report.stage}: {', '.join(dict.fromkeys(kinds))}")))
        tags |= {key: str(report.facts[key]) for key in _TAGGED if key in report.facts}
        write(self._entry, self._facts)
        target = self._entry / "reports"
        pages = [report.facts["page"]] if "page" in report.facts else []
        for name in (*report.pictures, *pages, f"{report.stage}.json"):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / name, target / name)

    def _keep(self, action: Callable[[], None]) -> bool:
        """Write evidence to the spool; evidence that cannot be written is not sent either, with one warning."""
        try:
            action()
        except OSError as error:
            if not self._lost:
                print(f"warning: reports for MLflow cannot be kept ({error}): the run continues without them", file=sys.stderr)
            self._lost = True
            return False
        return True

    def _send(self, action: Callable[[], Any]) -> Any:
        """Send while nothing has failed; after the first failure everything waits in the spool."""
        if self._trouble is not None:
            return None
        try:
            return action()
        except Exception as error:
            self._trouble = describe_error(self._uri, error, then="run `paddleship deliver`")
            print(f"warning: the run continues, and its reports are kept: {self._trouble}", file=sys.stderr)
            return None
        finally:
            self._keep(lambda: self._facts.update(read(self._entry)))


def close_dead_runs(spool: Path, *, tracking_uri: str) -> list[str]:
    """Close runs whose process was killed, as KILLED with the reason, or as they ended if they had. Returns the run ids of the former.

    A run is dead if nothing holds its lock, also for containers that share the folder. What MLflow does not accept stays in the spool.
    """
    closed = []
    for entry in sorted(path.parent for path in spool.glob("*/run.json")):
        with abandoned(entry) as ours, suppress(Exception):
            if ours and not (facts := read(entry)).get("waits"):  # for `paddleship deliver`
                run_id = _deliver(entry, tracking_uri)
                closed += [run_id] if "status" not in facts else []
                shutil.rmtree(entry)
    return closed


def deliver(spool: Path, *, tracking_uri: str) -> list[str]:
    """Send every remaining spool entry into its run. Returns the run ids.

    Entries of active runs are left alone, and an entry that cannot be sent does not block the others. Raises Unavailable.
    """
    sent, undelivered = [], []
    for entry in sorted(path.parent for path in spool.glob("*/run.json")):
        with abandoned(entry) as ours:
            if not ours:
                continue
            try:
                sent.append(_deliver(entry, tracking_uri))
                shutil.rmtree(entry)
            except Exception as error:
                undelivered.append(f"{entry.name} is kept: {describe_error(tracking_uri, error, then='run `paddleship deliver`')}")
    if undelivered:
        raise Unavailable(f"{len(sent)} runs were delivered, {len(undelivered)} were not; {'; '.join(undelivered)}")
    return sent


def _ended(status: str, reason: str, failure: str) -> dict[str, Any]:
    return {"status": status, "tags": {"reason": reason, "failure": failure}}


def _deliver(entry: Path, uri: str) -> str:
    facts = read(entry)
    if "status" not in facts:
        end = _ended("KILLED", "Killed", "its process was killed, or the machine went down")
        write(entry, facts | end | {"tags": facts["tags"] | end["tags"]})
    run_id = open_run(entry, uri)
    for report in reports(entry):
        send_report(entry, uri, report, history=True)
    if (entry / "release.json").exists():
        send_model(entry, uri)
    close_run(entry, uri)
    return run_id


def _logged(params: Params) -> dict[str, str]:
    """The params as text, truncated to MLflow's limit."""
    return {path: (item if isinstance(item, str) else json.dumps(item, ensure_ascii=False))[:6000] for path, item in params.flat().items()}
