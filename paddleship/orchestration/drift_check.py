"""A drift check: compare the request sample with the training profile, write the report, and send Prefect events about new drift."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paddleship.config.params import Params
from paddleship.config.sections.drift import MOST_HOURS
from paddleship.drift import drift_page, drift_plot, feature_comparison, samples
from paddleship.drift.feature_comparison import DriftResult, DriftVerdict, FeatureDrift
from paddleship.errors import BadInput, Unavailable
from paddleship.orchestration.automations import EVENT
from paddleship.servers.local_state import Local
from paddleship.shipped.computing.candidate import FILE, Candidate
from paddleship.shipped.computing.files import write_text

REPORT = "drift.md"
PICTURE = "drift/features.png"
_REPORTED = "drift.json"  # candidate → the features whose drift was reported to Prefect
_MOST_REPORTED = 20  # candidates


def check(checkout: Path, values: Params, *, sample: str | None, candidate: str | None, hours: int | None) -> DriftResult:
    """Compare, and write the report and its picture. Paths are relative to the checkout. Raises BadInput."""
    if hours is not None and not 1 <= hours <= MOST_HOURS:
        raise BadInput(f"hours must be from 1 to {MOST_HOURS} (got {hours}): servers keep a week")
    settings = values.drift.model_copy(update={"hours": hours} if hours is not None else {})
    path = sample or settings.sample
    if path is None:
        raise BadInput("there is no request sample: give --sample FOLDER, or set drift.sample to the folder that servers write to")
    if not (checkout / path).exists():
        raise BadInput(f"the request sample {path!r} does not exist: name the folder that a server with --sample writes to")
    if candidate and not (checkout / candidate / FILE).is_file():
        raise BadInput(f"{candidate!r} is no candidate: name the folder with the {FILE} of the candidate that serves")
    digest = Candidate.read(checkout / candidate).digest if candidate else None
    counted = samples.read(checkout / path, hours=settings.hours, digest=digest)
    if counted.model != values.name:
        raise BadInput(
            f"the request sample in {path} is of the model {counted.model!r}, and the params are of {values.name!r}: "
            "give the params of that model"
        )
    result = feature_comparison.compare(counted, settings)
    reports = checkout / values.paths.reports
    write_text(reports / REPORT, drift_page.markdown(result, picture=drift_plot.draw(result, reports, PICTURE)))
    return result


def notify(local: Local, result: DriftResult, *, params_file: str | None) -> list[str]:
    """Send an event for each feature whose drift was not reported to Prefect yet. Returns their names. Raises Unavailable.

    `params_file` is what was laid over params.yaml, with which the model is to be trained again.
    """
    if all(feature.verdict == DriftVerdict.CANNOT_TELL for feature in result.features):
        return []
    reported, digest = _reported(local), result.sample.candidate_digest
    new = [feature for feature in result.drifted if feature.name not in reported.get(digest, [])]
    if new:
        asyncio.run(_send(result, new, params_file or ""))
    reported = {**{key: names for key, names in reported.items() if key != digest}, digest: [feature.name for feature in result.drifted]}
    write_text(local.state / _REPORTED, json.dumps(dict(list(reported.items())[-_MOST_REPORTED:]), indent=1) + "\n")
    return [feature.name for feature in new]


async def _send(result: DriftResult, new: Sequence[FeatureDrift], params_file: str) -> None:
    from prefect.events import Event
    from prefect.events.clients import get_events_client

    sample, names = result.sample, ", ".join(feature.name for feature in new)
    resource = {"prefect.resource.id": f"paddleship.model.{sample.model}", "prefect.resource.name": sample.model}
    try:
        async with get_events_client(checkpoint_every=1) as client:
            for feature in new:
                facts: dict[str, Any] = {"feature": feature.name, "features": names, "distance": feature.distance, "rows": sample.rows}
                facts |= {"unseen_share": feature.unseen_share, "candidate_digest": sample.candidate_digest, "params_file": params_file}
                await client.emit(Event(event=EVENT, resource=resource, payload=facts))
    except Exception as error:
        reason = " ".join(f"{type(error).__name__} {error}".split())[:200]
        raise Unavailable(f"Prefect does not take the event of the drift ({reason}): start it (`make ui`), then check again") from None


def _reported(local: Local) -> dict[str, list[str]]:
    try:
        reported: dict[str, list[str]] = json.loads((local.state / _REPORTED).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return reported
