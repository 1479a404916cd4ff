"""Find, name, compare and delete the runs of a tracking server."""

from __future__ import annotations

import difflib
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from paddleship.errors import BadInput
from paddleship.reports.order import in_order
from paddleship.reports.report import Report
from paddleship.tracking import search, view
from paddleship.tracking.champion import Registry
from paddleship.tracking.client import connect, reached

_OURS = "tags.prefect_flow_run != ''"  # pipeline runs; candidate runs are their children
_VERSION = re.compile(r"(?P<model>[^@/]+)(?:@(?P<alias>[\w-]+)|/(?P<number>\d+))")  # as MLflow writes them


@dataclass(frozen=True)
class Run:
    """A pipeline run in MLflow; `reason` is its outcome if it is not done."""

    run_id: str
    experiment_id: str
    name: str
    model: str
    started: datetime
    status: str
    metrics: dict[str, float]
    params: dict[str, str]
    tags: dict[str, str]
    artifacts: Path | None

    @property
    def flow_run(self) -> str:
        return self.tags["prefect_flow_run"]

    @property
    def is_sweep(self) -> bool:
        """Whether it is the parent run of a sweep, which its variants are children of."""
        return "sweep" in self.tags and "sweep_variant" not in self.tags

    @property
    def ending(self) -> str:
        """The part of the name in parentheses at its end, which identifies the run; the whole name if it has none."""
        return self.name[:-1].rpartition(" (")[2] if self.name.endswith(")") else self.name

    @property
    def outcome(self) -> str:
        return self.tags.get("reason", "done" if self.status == "FINISHED" else self.status.lower())


def find(uri: str) -> list[Run]:
    """All pipeline runs, newest first. Raises Unavailable."""
    with reached(uri):
        client = connect(uri)
        models = {experiment.experiment_id: experiment.name for experiment in client.search_experiments()}
        runs = search.pages(client, list(models), _OURS)
        return [_run(each, models[each.info.experiment_id]) for each in runs]


def address(uri: str, run: Run) -> str | None:
    """The page of a run; None if no server shows it."""
    return view.page(uri, run.experiment_id, run.run_id)


def of_flow_run(uri: str, flow_run: str) -> Run | None:
    """The run that a flow run of Prefect left, or else the newest of those that it started as parts of itself; None without one."""
    runs = find(uri)
    of_parts = (run for run in runs if run.tags.get("started_by_flow_run") == flow_run)
    return next((run for run in runs if run.flow_run == flow_run), next(of_parts, None))


def of_name(uri: str, model: str, name: str) -> Run | None:
    """The newest pipeline run of a model with that name, or None."""
    client = connect(uri)
    experiment = client.get_experiment_by_name(model)
    if experiment is None:
        return None
    query = f"attributes.run_name = '{name}' AND {_OURS}"
    runs = client.search_runs([experiment.experiment_id], query, max_results=1, order_by=["attributes.start_time DESC"])
    return _run(runs[0], model) if runs else None


def link_variant(uri: str, run: Run, *, sweep: str, parent: str | None, label: str) -> None:
    """Tag the run of a sweep's variant and its candidates, as a child of the sweep's run, and name candidates after it.

    If the run is done, earlier runs of the same variant lose these tags, so that the view of the sweep shows each variant once.
    """
    client = connect(uri)
    tags = {"sweep": sweep, "sweep_variant": label}
    for key, value in {**tags, **({search.PARENT: parent} if parent else {})}.items():
        client.set_tag(run.run_id, key, value)
    source = run.tags.get("candidates_of", run.run_id)
    candidates = search.candidates(client, run.experiment_id, source)
    for candidate in candidates:
        for key, value in tags.items():
            client.set_tag(candidate.info.run_id, key, value)
        client.update_run(candidate.info.run_id, name=f"{label}, {candidate.data.tags['variant']}")
    if run.outcome == "done":
        _unlink_earlier(client, run, tags, current={run.run_id, source, *(candidate.info.run_id for candidate in candidates)})


def _unlink_earlier(client: Any, run: Run, tags: Mapping[str, str], *, current: set[str]) -> None:
    """Take the tags of a sweep's variant from all runs but the current ones."""
    for tagged in list(search.pages(client, [run.experiment_id], f"tags.sweep = '{tags['sweep']}'")):
        if tagged.info.run_id not in current and tags.items() <= tagged.data.tags.items():
            for key in tags:
                client.delete_tag(tagged.info.run_id, key)


def champion(uri: str, model: str) -> tuple[str, Run] | None:
    """The version of a model that the alias `champion` names, and the run that made it; None if there is none. Raises Unavailable."""
    registry = Registry(uri, model, artifact_root=None)
    shipped = registry.champion()
    return (shipped.version, _run(registry.run_of(shipped), model)) if shipped else None


def of_version(uri: str, text: str) -> Run | None:
    """The run that made a version, given as `MODEL/VERSION` or `MODEL@ALIAS`; None for other texts. Raises BadInput and Unavailable."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    model = match["model"]
    registry = Registry(uri, model, artifact_root=None)
    return _run(registry.run_of(registry.version(match["alias"] or match["number"])), model)


def reports(uri: str, run: Run) -> list[Report]:
    """The reports of a run, in the order of their stages; beside them are pages, such as `sbom.cdx.json`. Raises Unavailable."""
    with reached(uri), tempfile.TemporaryDirectory() as scratch:
        kept = [item.path for item in connect(uri).list_artifacts(run.run_id, "reports")]
        stored = [path for path in kept if PurePosixPath(path).suffixes == [".json"]]
        paths = [path for name in stored if (path := download(uri, run, name, Path(scratch)))]
        return in_order([Report.read(path.parent, path.stem) for path in paths])


def download(uri: str, run: Run, path: str, folder: Path) -> Path | None:
    """Copy an artifact of a run into `folder`; None where the run has no such artifact."""
    client = connect(uri)
    if path not in {item.path for item in client.list_artifacts(run.run_id, str(PurePosixPath(path).parent))}:
        return None
    return Path(client.download_artifacts(run.run_id, path, str(folder)))


def named(runs: Sequence[Run], word: str) -> Run:
    """The newest run with that name, or its part in parentheses, or whose MLflow or Prefect id starts with it. Raises BadInput."""
    for run in runs:
        if (
            word == run.name
            or run.name.endswith(f" ({word})")
            or (len(word) >= 6 and (run.run_id.startswith(word) or run.flow_run.startswith(word)))
        ):
            return run
    near = difflib.get_close_matches(word, [run.name for run in runs], n=1, cutoff=0.5)
    raise BadInput(f"there is no run {word!r}{f' (did you mean {near[0]!r}?)' if near else ''}: `paddleship runs list` shows them")


@dataclass(frozen=True)
class Registered:
    """What model versions refer to: their runs, and their images by id."""

    runs: set[str]
    images: set[str]


@dataclass(frozen=True)
class ModelVersion:
    """A model version, the run that made it, and its image; of a version that this pipeline did not register, the image is empty."""

    model: str
    version: str
    run_id: str
    image: str
    image_id: str


def versions(uri: str) -> list[ModelVersion]:
    """All model versions. Raises Unavailable."""
    with reached(uri):
        versions = list(connect(uri).search_model_versions())
    return [
        ModelVersion(one.name, str(one.version), str(one.run_id), one.tags.get("image", ""), one.tags.get("image_id", ""))
        for one in versions
    ]


def registered(uri: str) -> Registered:
    all_versions = versions(uri)
    return Registered({one.run_id for one in all_versions}, {one.image_id for one in all_versions if one.image_id})


def delete(uri: str, run: Run) -> None:
    """Delete a run, its candidate runs, and its artifacts if they are in a local folder; the variants of a sweep stay."""
    client = connect(uri)
    for each in (*search.candidates(client, run.experiment_id, run.run_id), client.get_run(run.run_id)):
        client.delete_run(each.info.run_id)
        folder = _folder(each.info.artifact_uri)
        if folder is not None and folder.parent.name == each.info.run_id:
            shutil.rmtree(folder.parent, ignore_errors=True)


def _run(run: Any, model: str) -> Run:
    info, data = run.info, run.data
    started = datetime.fromtimestamp(info.start_time / 1000, UTC)
    folder = _folder(info.artifact_uri)
    return Run(
        info.run_id,
        info.experiment_id,
        info.run_name,
        model,
        started,
        info.status,
        dict(data.metrics),
        dict(data.params),
        data.tags,
        folder,
    )


def _folder(address: str) -> Path | None:
    """The local folder of an artifact address; None if it is on a server."""
    parts = urlsplit(address)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None
