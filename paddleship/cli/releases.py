"""Releases of runs: the model version and image of each, and which of them is champion and serves, by the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paddleship.config import params_overlay
from paddleship.promotion.ledger import Ledger
from paddleship.tracking import champion, runs
from paddleship.tracking.runs import ModelVersion, Run


@dataclass(frozen=True)
class Release:
    """The model version of a run, its image, and where it serves, as text; `serves` is empty if it does not."""

    version: str
    image: str
    serves: str


def of_runs(checkout: Path, uri: str, listed: Sequence[Run]) -> dict[str, Release]:
    """The releases of those runs that have one, by MLflow run. Raises Unavailable, ParamsError and BadInput."""
    versions = runs.versions(uri)
    path, noted = checkout / params_overlay.load(checkout, None).promote.ledger, champion.all_entries(uri)
    ledgers = {model: Ledger(path, model, elsewhere=noted) for model in {one.model for one in versions}}
    pairs = [(run, _version_of(run, versions)) for run in listed]
    serving = {model: _serving(ledger) for model, ledger in ledgers.items()}
    return {run.run_id: Release(f"version {one.version}", one.image, serving[one.model].get(one.image_id, "")) for run, one in pairs if one}


def _version_of(run: Run, versions: Sequence[ModelVersion]) -> ModelVersion | None:
    """The version of a run: its own, or that of an earlier run with the same image."""
    image_id = run.tags.get("image_id")
    of_model = [one for one in versions if one.model == run.model]
    same = [one for one in of_model if one.run_id == run.run_id or (image_id and one.image_id == image_id)]
    return same[0] if same else None


def _serving(ledger: Ledger) -> dict[str, str]:
    """For each image that is champion or serves: where."""
    uses: dict[str, list[str]] = {}
    if (entry := ledger.serving()) is not None:
        uses[entry.shipped.image_id] = ["champion"]
    for where, shipped in ledger.targets().items():
        uses.setdefault(shipped.image_id, []).append(f"serves as {where}")
    return {image_id: ", ".join(texts) for image_id, texts in uses.items()}
