"""Read the request samples that servers wrote, and add them up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import BadInput
from paddleship.shipped.serving.sample import SCHEMA_VERSION, SUFFIX


@dataclass(frozen=True)
class Sample:
    """The requests of some hours to all servers of one candidate: `counts` by bin of each feature of the profile."""

    model: str
    candidate: str
    candidate_digest: str
    profile: dict[str, Any]
    rows: int
    counts: tuple[np.ndarray[Any, Any], ...]


def read(source: Path, *, hours: int, digest: str | None = None, now: datetime | None = None) -> Sample:
    """Add up the files in a folder, or read one file: the last `hours`, of the candidate with this digest.

    Without a digest, of the candidate that counted last. Raises BadInput.
    """
    paths = [source] if source.is_file() else sorted(source.glob(f"*{SUFFIX}"))
    if not paths:
        raise BadInput(
            f"there is no request sample in {str(source)!r}: start the server with --sample, and name the folder that it writes to"
        )
    samples = [_read(path) for path in paths]
    wanted = digest or max(samples, key=_latest)["candidate_digest"]
    ours = [item for item in samples if item["candidate_digest"] == wanted]
    if not ours:
        others = ", ".join(sorted({item["candidate_digest"][:12] for item in samples}))
        raise BadInput(
            f"{str(source)!r} has no requests of the candidate {wanted[:12]} (it has those of {others}): give the candidate that serves, "
            "or leave --candidate out"
        )
    since = ((now or datetime.now(UTC)) - timedelta(hours=hours)).strftime("%Y-%m-%dT%H")
    parts = [counted for item in ours for hour, counted in item["hours"].items() if hour > since]
    profile = ours[0]["profile"]
    counts = tuple(
        np.sum([np.zeros(len(feature["counts"])), *(part["counts"][index] for part in parts)], axis=0)
        for index, feature in enumerate(profile["features"])
    )
    return Sample(ours[0]["model"], ours[0]["candidate"], wanted, profile, sum(part["rows"] for part in parts), counts)


def _latest(item: dict[str, Any]) -> tuple[str, int]:
    """The last hour in which a server counted, and its rows: after a promotion, two candidates have the same hour."""
    hour = max(item["hours"], default="")
    return hour, item["hours"][hour]["rows"] if hour else 0


def _read(path: Path) -> dict[str, Any]:
    try:
        item: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        version = item.get("schema_version")
        sizes = [len(feature["counts"]) for feature in item["profile"]["features"]] if version == SCHEMA_VERSION else []
        fits = all(_sizes(part["counts"]) == sizes for part in item["hours"].values()) if version == SCHEMA_VERSION else True
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path} cannot be read as a request sample ({type(error).__name__}: {error}): remove it, or give another") from None
    if version != SCHEMA_VERSION or not fits:
        reason = f"schema version {version!r}, this paddleship reads {SCHEMA_VERSION}" if fits else "its counts do not fit its profile"
        raise BadInput(f"{path} cannot be read as a request sample ({reason}): remove it, or read it with the paddleship that served")
    return item


def _sizes(counts: Sequence[Sequence[int]]) -> list[int]:
    return [len(bins) for bins in counts]
