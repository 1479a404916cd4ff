"""Send a spool entry to MLflow; sending it twice leaves no duplicates.

Only MlflowClient is used, because MLflow's fluent API would end a run that another process owns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from paddleship.errors import without_credentials
from paddleship.lineage.source import SOURCE_FOLDER
from paddleship.reports.report import Report
from paddleship.reports.statuses import Status
from paddleship.tracking import names, registry, run_description, search, spool, view
from paddleship.tracking.client import DeletedExperiment, connect, epoch_metrics
from paddleship.tracking.store import first_use
from paddleship.tracking.table_row import TableRow

_KIND = {"mlflow.experimentKind": "custom_model_development"}  # so that the page opens on runs and metrics
_BATCH = 1000  # MLflow's limit for one request
_MADE = (Status.MADE, Status.PROVEN, Status.MEASURED)
_ENTRY = "spool_entry"  # tag with the name of the entry
_MAKING = ("seed", "data", "preprocess", "model", "train")  # sections of params that decide what a model answers
_VALID = "benchmark_valid"
_LONGEST_TITLE = 36  # characters that are seen of a run's name in the table
_CALLED = {"metric": "proof_score", "image_bytes": "added_image_bytes"}  # metrics with another name on MLflow's pages


def open_run(entry: Path, uri: str) -> str:
    """Create the run, or find the one that the entry names; params and tags are logged once."""
    from mlflow.entities import Param, RunTag

    facts = spool.read(entry)
    location = f"{facts['artifact_root']}/{facts['experiment']}" if facts["artifact_root"] and not uri.startswith("http") else None
    with first_use(uri):
        client = connect(uri)
        facts["experiment_id"] = experiment_id(client, facts["experiment"], location)
    if facts["run_id"] is None:
        of_entry = f"tags.{_ENTRY} = '{entry.name}'"  # a process that was killed may have created it, and noted nothing
        runs = client.search_runs([facts["experiment_id"]], of_entry, max_results=1)
        tags = {**facts["tags"], _ENTRY: entry.name}
        run = runs[0] if runs else client.create_run(facts["experiment_id"], tags=tags, run_name=facts["tags"].get("mlflow.runName"))
        facts["run_id"] = run.info.run_id
    spool.write(entry, facts)
    client.log_batch(
        facts["run_id"],
        params=[Param(key, value) for key, value in facts["params"].items()],
        tags=[RunTag(key, value) for key, value in facts["tags"].items()],
    )
    return str(facts["run_id"])


def get_ready(uri: str) -> None:
    """Import MLflow's client, and create the tables of a SQLite store; errors are left to the first call that needs MLflow."""
    with suppress(Exception):
        connect(uri)


def experiment_id(client: Any, name: str, location: str | None) -> str:
    """The experiment of that name, created if it is missing; if two runs create it at once, one of them finds the other's.

    Raises DeletedExperiment.
    """
    from mlflow.exceptions import MlflowException

    if (experiment := client.get_experiment_by_name(name)) is not None:
        if experiment.lifecycle_stage == "deleted":
            way = (
                f"`MLFLOW_TRACKING_URI={without_credentials(client.tracking_uri)} mlflow experiments restore -x {experiment.experiment_id}`"
            )
            raise DeletedExperiment(
                f"the experiment {name!r} of MLflow was deleted: restore it with {way}, or delete it for good (`mlflow gc`)"
            )
        return str(experiment.experiment_id)
    try:
        return str(client.create_experiment(name, artifact_location=location, tags=_KIND))
    except MlflowException:
        if (experiment := client.get_experiment_by_name(name)) is None:
            raise
        return str(experiment.experiment_id)


def send_report(entry: Path, uri: str, report: Report, *, history: bool) -> None:
    from mlflow.entities import Metric, RunTag

    client, facts = connect(uri), spool.read(entry)
    at_ms = _started_ms(report)
    measured = report.metrics | {"seconds": report.seconds, "errors": report.count("error"), "warnings": report.count("warning")}
    metrics = {f"{report.stage}/{key}": float(value) for key, value in measured.items()}
    logged = [Metric(key, value, at_ms, 0) for key, value in metrics.items()]
    if history:
        logged += _missing_epochs(client, facts["run_id"], report.facts.get("history", []), at_ms)
    tags = [RunTag(key, value) for key, value in facts["tags"].items()]
    client.log_batch(facts["run_id"], metrics=logged, tags=tags)
    client.log_artifact(facts["run_id"], str(entry / "reports" / f"{report.stage}.json"), "reports")
    if "page" in report.facts:
        client.log_artifact(facts["run_id"], str(entry / "reports" / report.facts["page"]), "reports")
    for picture in report.pictures:
        client.log_artifact(facts["run_id"], str(entry / "reports" / picture), _folder(report))
    if report.stage == "prepare":
        _send_dataset(client, facts, report)


def _missing_epochs(client: Any, run_id: str, history: list[dict[str, float | None]], at_ms: int) -> list[Any]:
    """The points of the curve that did not arrive live; None is a value that was not finite."""
    rows = [{key: value for key, value in row.items() if value is not None} for row in history]
    points = epoch_metrics(rows, first=0, at_ms=at_ms)
    sent = {key: {point.step for point in client.get_metric_history(run_id, key)} for key in {point.key for point in points}}
    return [point for point in points if point.step not in sent[point.key]]


def _send_dataset(client: Any, facts: Mapping[str, Any], report: Report) -> None:
    from mlflow.data.meta_dataset import MetaDataset
    from mlflow.data.sources import LocalArtifactDatasetSource
    from mlflow.entities import DatasetInput, InputTag

    source = LocalArtifactDatasetSource(facts["params"]["paths.prepared"])
    dataset = MetaDataset(source, name=facts["experiment"], digest=report.facts["data_sha256"][:32])
    client.log_inputs(facts["run_id"], datasets=[DatasetInput(dataset._to_mlflow_entity(), [InputTag("mlflow.data.context", "training")])])


def _send_candidates(client: Any, entry: Path, facts: Mapping[str, Any]) -> str:
    """Create a child run per candidate, unless they were measured by another run. Returns the run that has them.

    It waits for the end of the run, because MLflow compares runs by the metric that it got first, and the speedup is known last.
    """
    own, ordered = str(facts["run_id"]), spool.reports(entry)
    reports = [report for report in ordered if report.candidates]
    last = next((report for report in reports if _measures(report)), reports[-1] if reports else None)
    if last is None:
        return own
    if last.stage in facts["tags"].get("stages_cached", "").split():
        others = f"tags.evidence = '{_evidence(last)}' AND tags.`{search.PARENT}` != '{own}'"
        if runs := client.search_runs([facts["experiment_id"]], others, max_results=1):
            return str(runs[0].data.tags[search.PARENT])
    judged = TableRow.of(ordered, failure=facts["tags"].get("failure"))
    curves = {name: curve for report in reports for name, curve in report.facts.get("losses", {}).items()}
    for name, row in _rows(reports).items():
        _send_candidate(client, facts, name, row, last, judged, curve=curves.get(name, []))
    return own


def _rows(reports: Sequence[Report]) -> dict[str, dict[str, Any]]:
    """What all stages say about each candidate; where two disagree, the later one."""
    rows: dict[str, dict[str, Any]] = {}
    for report in reversed(reports):
        for name, row in report.candidates.items():
            merged = rows.setdefault(name, {})
            merged |= {key: value for key, value in row.items() if key not in merged and value not in (None, "")}
    return rows


def _send_candidate(
    client: Any, facts: Mapping[str, Any], name: str, row: Mapping[str, Any], report: Report, judged: TableRow, *, curve: Sequence[float]
) -> None:
    """Create a child run, with the params that made the model and the same metric keys as the others, so that MLflow compares them.

    `curve` is its loss while the stage trained it. `evidence` identifies the report, so that a later run finds these child runs.
    """
    from mlflow.entities import Metric, Param, RunTag

    at_ms = _started_ms(report)
    query = f"tags.`{search.PARENT}` = '{facts['run_id']}' AND tags.variant = '{name}'"
    if runs := client.search_runs([facts["experiment_id"]], query, max_results=1):
        run_id = runs[0].info.run_id
    else:
        kinship = {search.PARENT: facts["run_id"], "variant": name, "run": facts["tags"].get("mlflow.runName", facts["run_id"])}
        title = _title(facts, name)
        run_id = client.create_run(facts["experiment_id"], start_time=at_ms or None, tags=kinship, run_name=title).info.run_id
    made_by = {key: value for key, value in facts["params"].items() if key.split(".")[0] in _MAKING}
    made_by |= {"variant": name, **{key: str(row[key]) for key in ("runtime", "precision") if row.get(key)}}
    numbers = sorted(_numbers({**row, **judged.numbers(row)}), key=lambda number: view.rank(number[0]))
    metrics = [Metric(key, value, at_ms, 0) for key, value in numbers]
    metrics += [Metric("loss", loss, at_ms, step) for step, loss in enumerate(curve) if math.isfinite(loss)]
    tags = [RunTag(key, str(row[key])) for key in ("status", "reason", "winner") if key in row]
    tags += [RunTag(_VALID, str(report.facts[_VALID]))] if _VALID in report.facts else []
    tags += [RunTag(key, text) for key, text in {**judged.texts(row), "evidence": _evidence(report)}.items()]
    client.log_batch(run_id, metrics=metrics[:_BATCH], params=[Param(key, value) for key, value in made_by.items()], tags=tags)
    for start in range(_BATCH, len(metrics), _BATCH):
        client.log_batch(run_id, metrics=metrics[start : start + _BATCH])
    client.set_terminated(run_id, "FINISHED" if row.get("status") in _MADE else "FAILED")


def _title(facts: Mapping[str, Any], candidate: str) -> str:
    """How the run differs from others of its model, and the candidate; the model if the former does not fit, because params are columns."""
    tags, model = facts["tags"], facts["experiment"]
    name = str(tags.get("mlflow.runName", facts["run_id"])).removesuffix(names.ending(tags.get("prefect_flow_run", "")))
    title = f"{name.removeprefix(f'{model}: ')}, {candidate}"
    return title if len(title) <= _LONGEST_TITLE else f"{model}, {candidate}"


def _started_ms(report: Report) -> int:
    return int(report.started_at.timestamp() * 1000) if report.started_at else 0


def _evidence(report: Report) -> str:
    return f"{report.stage} {report.started_at.isoformat() if report.started_at else ''}".strip()


def _measures(report: Report) -> bool:
    return any(row.get("status") == Status.MEASURED for row in report.candidates.values())


def _numbers(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """All finite numbers in a row, by their names on MLflow's pages."""
    for key, value in row.items():
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield _CALLED.get(key, key), float(value)


def send_model(entry: Path, uri: str) -> str:
    client, facts = connect(uri), spool.read(entry)
    release = json.loads((entry / "release.json").read_text(encoding="utf-8"))
    client.log_artifact(facts["run_id"], str(entry / "release.json"))
    reports = spool.reports(entry)
    description = run_description.version(reports, release, run=_run_link(facts), picture=_picture_link(facts, reports))
    return registry.register(client, facts["run_id"], entry / "candidate", release, description=description)


def close_run(entry: Path, uri: str) -> bool:
    from mlflow.entities import RunTag

    client, facts = connect(uri), spool.read(entry)
    source = _send_candidates(client, entry, facts)
    view.share(client, facts["experiment_id"], view.WINNERS, view.CANDIDATES)
    links = {
        "The candidates of this run as charts": _compare_link(facts, source),
        "The winners of all runs": view.link("", facts["experiment_id"]),
        "All candidates of all runs": view.link("", facts["experiment_id"], view.CANDIDATES),
    }
    text = run_description.markdown(spool.reports(entry), links=links, failure=facts["tags"].get("failure"))
    final = facts["tags"] | {"mlflow.note.content": text} | ({} if source == facts["run_id"] else {"candidates_of": source})
    client.log_batch(facts["run_id"], tags=[RunTag(key, value) for key, value in final.items()])
    if (entry / SOURCE_FOLDER).exists():
        client.log_artifacts(facts["run_id"], str(entry / SOURCE_FOLDER), SOURCE_FOLDER)
    for page in entry.glob("*.html"):
        client.log_artifact(facts["run_id"], str(page))
    client.set_terminated(facts["run_id"], facts["status"])
    return True


def _run_link(facts: Mapping[str, Any]) -> str:
    return f"#/experiments/{facts['experiment_id']}/runs/{facts['run_id']}?{view.MODE}"


def _picture_link(facts: Mapping[str, Any], reports: Sequence[Report]) -> str | None:
    """The address of the benchmark's first picture, relative to MLflow's pages; None without one."""
    report = next((report for report in reports if report.stage == "benchmark" and report.pictures), None)
    if report is None:
        return None
    return "get-artifact?" + urlencode({"path": f"{_folder(report)}/{Path(report.pictures[0]).name}", "run_uuid": facts["run_id"]})


def _folder(report: Report) -> str:
    """Where the pictures of a stage are in MLflow's artifacts."""
    return f"pictures/{report.stage}"


def _compare_link(facts: Mapping[str, Any], run_id: str) -> str:
    """A link to the chart view of a run's candidates, fastest first, relative to MLflow's pages."""
    children = quote(f"tags.`mlflow.parentRunId` = '{run_id}'")
    order = f"orderByKey={quote('metrics.`p50_ms`')}&orderByAsc=true"
    return f"#/experiments/{facts['experiment_id']}/runs?{view.MODE}&searchFilter={children}&compareRunsMode=CHART&{order}"
