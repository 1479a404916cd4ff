"""One run per pipeline run, a child run per candidate, the winner in the registry.

Evidence is written to a spool folder first and sent from there, so that a tracking server which goes away
loses nothing: the work goes on, and `deliver` sends what is left by the same code. Only MlflowClient is used,
since MLflow's fluent calls would end a run that another process owns.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from paddleship.errors import Unavailable
from paddleship.files import write_text
from paddleship.params import Params
from paddleship.report import Report
from tasks.tracking import note, registry
from tasks.tracking.client import connect, epoch_metrics

_CHILD_METRICS = (
    "p50_ms",
    "p90_ms",
    "p95_ms",
    "p99_ms",
    "throughput_per_s",
    "load_ms",
    "first_call_ms",
    "peak_memory_bytes",
    "file_bytes",
    "noise_ratio",
    "flip_rate",
)
_KIND = {"mlflow.experimentKind": "custom_model_development"}  # so that the page opens on runs and metrics
_MADE = ("made", "proven", "measured")


class Tracker:
    """One pipeline run in MLflow. Never raises: on the first trouble it warns, and keeps the rest in the spool.

    `run_id` is None as long as the server was never reached; `undelivered` is the spool folder of this run
    when something of it is not in MLflow yet.
    """

    def __init__(self, entry: Path, tracking_uri: str) -> None:
        self._entry, self._uri = entry, tracking_uri
        self._trouble: str | None = None

    @classmethod
    def start(cls, params: Params, *, tracking_uri: str, artifact_root: str | None, spool: Path, tags: Mapping[str, str]) -> Tracker:
        """Open the run. `tags` name what this run is of (git commit, flow run); the spool entry is named by the time."""
        entry = spool / f"{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}"
        facts = {"experiment": params.name, "artifact_root": artifact_root, "params": _flat(params), "tags": dict(tags), "run_id": None}
        write_text(entry / "run.json", json.dumps(facts, indent=1))
        tracker = cls(entry, tracking_uri)
        tracker._try(lambda: _open(entry, tracking_uri))
        return tracker

    @property
    def run_id(self) -> str | None:
        return _read(self._entry)["run_id"] if self._entry.exists() else self._finished_id

    @property
    def url(self) -> str | None:
        """Where the run's page is, when a server shows it."""
        return _url(self._uri, self._experiment, self.run_id) if self.run_id else None

    @property
    def undelivered(self) -> Path | None:
        return self._entry if self._trouble and self._entry.exists() else None

    def log_report(self, report: Report, folder: Path, *, cached: bool) -> None:
        """Metrics, verdict, candidates and pictures of one stage; `cached` says that the stage itself did not run now."""
        kept = self._entry / "reports"
        for name in (f"{report.stage}.json", *report.pictures):
            (kept / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / name, kept / name)
        facts = _read(self._entry)
        for tag, applies in (("stages_passed", bool(report.verdict)), ("stages_failed", not report.verdict), ("stages_cached", cached)):
            if applies:
                facts["tags"][tag] = f"{facts['tags'].get(tag, '')} {report.stage}".strip()
        if "data_sha256" in report.facts:
            facts["tags"]["data_sha256"] = report.facts["data_sha256"]
        write_text(self._entry / "run.json", json.dumps(facts, indent=1))
        self._try(lambda: _send_report(self._entry, self._uri, report, history=cached))

    def register(self, candidate: Path, release: Path) -> str | None:
        """Make the accepted candidate a model version with the alias `challenger`; what it is called there, in words."""
        shutil.copy(release, self._entry / "release.json")
        shutil.copytree(candidate, self._entry / "candidate", dirs_exist_ok=True)
        version: str | None = self._try(lambda: _send_model(self._entry, self._uri))
        return version

    def finish(self, *, failure: str | None = None, tags: Mapping[str, str] | None = None) -> None:
        """Close the run, as failed with its reason or as finished, and drop the spool entry when all of it has arrived."""
        facts = _read(self._entry)
        facts["tags"] |= {**(tags or {}), **({"failure": failure} if failure else {})}
        facts["status"] = "FAILED" if failure else "FINISHED"
        write_text(self._entry / "run.json", json.dumps(facts, indent=1))
        self._finished_id, self._experiment = facts["run_id"], facts.get("experiment_id")
        if self._trouble is None and self._try(lambda: _close(self._entry, self._uri)) is not None:
            shutil.rmtree(self._entry)

    _finished_id: str | None = None
    _experiment: str | None = None

    def _try(self, action: Callable[[], Any]) -> Any:
        """Do it while the server has not failed yet; after the first failure everything waits in the spool."""
        if self._trouble is not None:
            return None
        try:
            return action()
        except Exception as error:
            self._trouble = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            print(
                f"warning: MLflow at {self._uri} does not answer ({self._trouble}): the work goes on, the evidence is kept", file=sys.stderr
            )
            return None


def deliver(spool: Path, *, tracking_uri: str) -> list[str]:
    """Send every spool entry that was left, each into the run it belongs to; their run ids. Raises Unavailable."""
    sent = []
    for entry in sorted(path.parent for path in spool.glob("*/run.json")):
        try:
            _open(entry, tracking_uri)
            for report in _reports(entry):
                _send_report(entry, tracking_uri, report, history=True)
            if (entry / "candidate").exists():
                _send_model(entry, tracking_uri)
            _close(entry, tracking_uri)
        except Exception as error:
            reason = " ".join(str(error).split())[:200]
            raise Unavailable(
                f"MLflow at {tracking_uri} does not take {entry.name} ({reason}): start it, then `paddleship deliver`"
            ) from None
        sent.append(_read(entry)["run_id"])
        shutil.rmtree(entry)
    return sent


def _open(entry: Path, uri: str) -> str:
    """Create the run, or find the one that the entry names; params and tags once."""
    from mlflow.entities import Param, RunTag

    client, facts = connect(uri), _read(entry)
    location = f"{facts['artifact_root']}/{facts['experiment']}" if facts["artifact_root"] and not uri.startswith("http") else None
    facts["experiment_id"] = _experiment_id(client, facts["experiment"], location)
    if facts["run_id"] is None:
        run = client.create_run(facts["experiment_id"], tags=facts["tags"], run_name=facts["tags"].get("mlflow.runName"))
        facts["run_id"] = run.info.run_id
    write_text(entry / "run.json", json.dumps(facts, indent=1))
    client.log_batch(
        facts["run_id"],
        params=[Param(key, value) for key, value in facts["params"].items()],
        tags=[RunTag(key, value) for key, value in facts["tags"].items()],
    )
    return str(facts["run_id"])


def _experiment_id(client: Any, name: str, location: str | None) -> str:
    """The experiment of that name, made when there is none; of two runs that make it at once, one finds the other's."""
    from mlflow.exceptions import MlflowException

    if (found := client.get_experiment_by_name(name)) is not None:
        return str(found.experiment_id)
    try:
        return str(client.create_experiment(name, artifact_location=location, tags=_KIND))
    except MlflowException:
        if (found := client.get_experiment_by_name(name)) is None:
            raise
        return str(found.experiment_id)


def _send_report(entry: Path, uri: str, report: Report, *, history: bool) -> None:
    from mlflow.entities import Metric, RunTag

    client, facts = connect(uri), _read(entry)
    at_ms = int(report.started_at.timestamp() * 1000) if report.started_at else 0
    metrics = {f"{report.stage}/{key}": float(value) for key, value in report.metrics.items()} | {f"{report.stage}/seconds": report.seconds}
    logged = [Metric(key, value, at_ms, 0) for key, value in metrics.items()]
    if history:
        logged += epoch_metrics(report.facts.get("history", []), first=0, at_ms=at_ms)
    tags = [RunTag(key, value) for key, value in facts["tags"].items()]
    client.log_batch(facts["run_id"], metrics=logged, tags=tags)
    client.log_artifact(facts["run_id"], str(entry / "reports" / f"{report.stage}.json"), "reports")
    for picture in report.pictures:
        client.log_artifact(facts["run_id"], str(entry / "reports" / picture), f"pictures/{report.stage}")
    if report.stage == "prepare":
        _send_dataset(client, facts, report)
    for name, row in report.candidates.items():
        _send_candidate(client, facts, name, row, at_ms)


def _send_dataset(client: Any, facts: Mapping[str, Any], report: Report) -> None:
    from mlflow.data.meta_dataset import MetaDataset
    from mlflow.data.sources import LocalArtifactDatasetSource
    from mlflow.entities import DatasetInput, InputTag

    source = LocalArtifactDatasetSource(facts["params"]["paths.prepared"])
    dataset = MetaDataset(source, name=facts["experiment"], digest=report.facts["data_sha256"][:32])
    client.log_inputs(facts["run_id"], datasets=[DatasetInput(dataset._to_mlflow_entity(), [InputTag("mlflow.data.context", "training")])])


def _send_candidate(client: Any, facts: Mapping[str, Any], name: str, row: Mapping[str, Any], at_ms: int) -> None:
    """One child run per candidate, with the same metric keys in all of them, so that they line up in the compare view."""
    from mlflow.entities import Metric, Param, RunTag

    query = f"tags.`mlflow.parentRunId` = '{facts['run_id']}' AND tags.variant = '{name}'"
    found = client.search_runs([facts["experiment_id"]], query, max_results=1)
    if found:
        run_id = found[0].info.run_id
    else:
        kinship = {"mlflow.parentRunId": facts["run_id"], "variant": name}
        run_id = client.create_run(facts["experiment_id"], tags=kinship, run_name=name).info.run_id
    params = [Param(key, str(row[key])) for key in ("runtime", "precision") if row.get(key)] + ([] if found else [Param("variant", name)])
    metrics = [Metric(key, float(row[key]), at_ms, 0) for key in _CHILD_METRICS if row.get(key) is not None]
    tags = [RunTag(key, str(row[key])) for key in ("status", "reason", "winner") if row.get(key) not in (None, "")]
    client.log_batch(run_id, metrics=metrics, params=params, tags=tags)
    client.set_terminated(run_id, "FINISHED" if row.get("status") in _MADE else "FAILED")


def _send_model(entry: Path, uri: str) -> str:
    client, facts = connect(uri), _read(entry)
    release = json.loads((entry / "release.json").read_text(encoding="utf-8"))
    client.log_artifact(facts["run_id"], str(entry / "release.json"))
    return registry.register(client, facts["run_id"], entry / "candidate", release)


def _close(entry: Path, uri: str) -> bool:
    from mlflow.entities import RunTag

    client, facts = connect(uri), _read(entry)
    text = note.markdown(_reports(entry), compare=_compare_link(facts), failure=facts["tags"].get("failure"))
    final = facts["tags"] | {"mlflow.note.content": text}
    client.log_batch(facts["run_id"], tags=[RunTag(key, value) for key, value in final.items()])
    client.set_terminated(facts["run_id"], facts.get("status", "FAILED"))
    return True


def _reports(entry: Path) -> list[Report]:
    """The reports of a spool entry in the order of their stages."""
    found = [Report.read(path.parent, path.stem) for path in (entry / "reports").glob("*.json")]
    return sorted(found, key=lambda report: report.started_at.timestamp() if report.started_at else 0)


def _flat(params: Params) -> dict[str, str]:
    """Every value as `section.key`, cut to what MLflow takes."""
    flat: dict[str, str] = {}
    for section, value in params.model_dump(mode="json").items():
        items: list[tuple[str, Any]] = list(value.items()) if isinstance(value, dict) else [("", value)]
        for key, item in items:
            text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
            flat[f"{section}.{key}" if key else section] = text[:6000]
    return flat


def _compare_link(facts: Mapping[str, Any]) -> str:
    """The chart view of this run's candidates, fastest first, as a link within MLflow's pages."""
    children = quote(f"tags.`mlflow.parentRunId` = '{facts['run_id']}'")
    order = f"orderByKey={quote('metrics.`p50_ms`')}&orderByAsc=true"
    return f"#/experiments/{facts['experiment_id']}/runs?searchFilter={children}&compareRunsMode=CHART&{order}"


def _url(uri: str, experiment: str | None, run_id: str | None) -> str | None:
    return f"{uri.rstrip('/')}/#/experiments/{experiment}/runs/{run_id}" if uri.startswith("http") and experiment else None


def _read(entry: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((entry / "run.json").read_text())
    return facts
