"""The champion in MLflow: model versions, the alias that names the one that serves, and a copy of the ledger for all machines."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from paddleship.errors import BadInput
from paddleship.promotion.answers import Recording
from paddleship.promotion.ledger import Entry, Shipped
from paddleship.tracking import search
from paddleship.tracking.client import connect, reached
from paddleship.tracking.sending import experiment_id
from paddleship.tracking.store import first_use

CHAMPION = "champion"
_ENTRY = "ledger_entry"
_RECORDING = "recording.json"
_WHOLE = "FINISHED"  # status of the run of an entry that has all of it


def all_entries(uri: str) -> list[Entry]:
    """The ledgers of all models as MLflow has them. Raises Unavailable."""
    with reached(uri):
        client = connect(uri)
        experiments = [experiment.experiment_id for experiment in client.search_experiments()]
        runs = list(search.pages(client, experiments, f"tags.{_ENTRY} != ''"))
    return [Entry.model_validate_json(run.data.tags[_ENTRY]) for run in runs if run.info.status == _WHOLE]


class Registry:
    """The versions of one model, and its promotions as runs of an experiment of their own.

    Every method raises Unavailable where MLflow does not answer.
    """

    def __init__(self, uri: str, model: str, *, artifact_root: str | None) -> None:
        self._uri, self._model, self._artifact_root = uri, model, artifact_root
        with first_use(uri), reached(uri):
            self._client = connect(uri)
            self._client.search_experiments(max_results=1)

    def version(self, wanted: str) -> Shipped:
        """The version of that number or alias. Raises BadInput."""
        with reached(self._uri):
            if wanted.isdigit():
                version = self._maybe(lambda: self._client.get_model_version(self._model, wanted))
            else:
                version = self._maybe(lambda: self._client.get_model_version_by_alias(self._model, wanted))
        if version is None:
            raise BadInput(f"{self._model!r} has no version {wanted!r}: `paddleship run` registers one; for another model: --params FILE")
        facts = ("image", "image_id", "candidate_digest")
        if lacking := [key for key in facts if key not in version.tags]:
            raise BadInput(
                f"version {version.version} of {self._model!r} has no tag {lacking[0]!r}: "
                "it was not accepted by this pipeline; run it again"
            )
        return Shipped(
            model=self._model,
            version=str(version.version),
            **{key: version.tags[key] for key in facts},
            reference=version.tags.get("reference"),
        )

    def champion(self) -> Shipped | None:
        """The version that the alias `champion` names."""
        with reached(self._uri):
            version = self._maybe(lambda: self._client.get_model_version_by_alias(self._model, CHAMPION))
        return self.version(str(version.version)) if version is not None else None

    def run_of(self, shipped: Shipped) -> Any:
        """The MLflow run that made a version."""
        with reached(self._uri):
            return self._client.get_run(self._client.get_model_version(self._model, shipped.version).run_id)

    def set_reference(self, shipped: Shipped) -> None:
        """Record the image of this version in a registry."""
        with reached(self._uri):
            self._client.set_model_version_tag(self._model, shipped.version, "reference", shipped.reference)

    def set_champion(self, shipped: Shipped) -> None:
        """Set the alias `champion` to this version, and record its image in the registry."""
        with reached(self._uri):
            if shipped.reference:
                self.set_reference(shipped)
            self._client.set_registered_model_alias(self._model, CHAMPION, shipped.version)

    def entries(self) -> list[Entry]:
        """The ledger as MLflow has it, without entries of which a part is missing."""
        with reached(self._uri):
            return [entry for run, entry in self._runs_with_entries() if run.info.status == _WHOLE]

    def add(self, entry: Entry, recording: Recording = ()) -> None:  # type: ignore[assignment]
        """Add an entry, with the recorded answers of its image."""
        from mlflow.entities import Metric

        with reached(self._uri):
            at_ms = _milliseconds(entry.at)
            name = f"{entry.action} {entry.shipped.version}: {entry.event}"
            tags = {
                _ENTRY: entry.model_dump_json(),
                "mlflow.runName": name,
                "mlflow.note.content": entry.why,
                "version": entry.shipped.version,
            }
            begun = [run for run, noted in self._runs_with_entries() if noted.id == entry.id]  # by a process that was killed
            run = begun[0] if begun else self._client.create_run(self._experiment(), start_time=at_ms, tags=tags, run_name=name)
            self._client.log_batch(run.info.run_id, metrics=[Metric(key, float(value), at_ms, 0) for key, value in entry.metrics.items()])
            if recording:
                self._client.log_dict(run.info.run_id, {"recording": recording}, _RECORDING)
            self._client.set_terminated(run.info.run_id, end_time=at_ms)

    def recording(self, shipped: Shipped) -> Recording:
        """The recorded answers of an image; empty if there are none."""
        with reached(self._uri):
            for run, entry in self._runs_with_entries():
                same = entry.shipped.candidate_digest == shipped.candidate_digest
                if same and any(file.path == _RECORDING for file in self._client.list_artifacts(run.info.run_id)):
                    with tempfile.TemporaryDirectory() as scratch:
                        file = self._client.download_artifacts(run.info.run_id, _RECORDING, scratch)
                        recording: Recording = json.loads(Path(file).read_text(encoding="utf-8"))["recording"]
                    return recording
        return []

    def _runs_with_entries(self) -> list[tuple[Any, Entry]]:
        """The runs with an entry, and their entries."""
        runs = search.pages(self._client, [self._experiment()], f"tags.{_ENTRY} != ''")
        return [(run, Entry.model_validate_json(run.data.tags[_ENTRY])) for run in runs]

    def _experiment(self) -> str:
        name = f"{self._model} promotions"
        location = f"{self._artifact_root}/{self._model}-promotions" if self._artifact_root and not self._uri.startswith("http") else None
        return experiment_id(self._client, name, location)

    def _maybe(self, ask: Callable[[], Any]) -> Any:
        """What MLflow has under that name; None if it has nothing."""
        from mlflow.exceptions import MlflowException

        try:
            return ask()
        except MlflowException as error:
            if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                return None
            raise


def _milliseconds(at: datetime) -> int:
    return int(1000 * at.timestamp())
