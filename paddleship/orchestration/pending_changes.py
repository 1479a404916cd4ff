"""What a retraining would run: the newest commit and data, what differs from dvc.lock, and whether that was run before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paddleship.config import loading
from paddleship.config.params import Params
from paddleship.execution import snapshots, stages, workspace
from paddleship.execution.stages import Until
from paddleship.execution.workspace import Workspace
from paddleship.servers.local_state import Local
from paddleship.shipped.computing.files import write_text
from paddleship.stage.fingerprint import fingerprint

_FILE = "retrained.json"
_MOST_VERSIONS = 100  # versions
_REF = "refs/paddleship/data"  # keeps the last snapshot with refreshed imports


@dataclass(frozen=True)
class Current:
    """`commit` is what runs: a snapshot if an import was refreshed. `version` identifies everything that the stages read.

    `changed` is what differs from dvc.lock by stage; `data` the files of `data.raw` among it.
    """

    commit: str
    version: str
    changed: Mapping[str, Sequence[str]]
    data: tuple[str, ...]


@dataclass(frozen=True)
class Before:
    """A retraining of the same version."""

    at: str
    run: str
    outcome: str


def changes(checkout: Path, until: Until) -> dict[str, list[str]]:
    """What differs from dvc.lock, by stage. Another machine alone is no change: a job may run on any."""
    values = loading.load(checkout / "params.yaml")
    fingerprint(values, checkout)
    return stages.changes(checkout, stages.graph(checkout, until=until), apart_from=[Path(values.paths.host)])


def detect(checkout: Path, run_id: str, *, commit: str | None, overlay: Mapping[str, Any], until: Until) -> Current:
    """Fetch, refresh imports and compare with dvc.lock, in a worktree. Raises BadInput and Unavailable."""
    name = workspace.newest(checkout, commit) if commit else workspace.commit(checkout)
    working_copy = workspace.isolate(checkout, f"look-{run_id}", overlay, name)
    try:
        values = working_copy.params()
        if stages.refresh_imports(working_copy.root):
            name = snapshots.take(working_copy.root)
            snapshots.hold(checkout, name, _REF)
        changed, version = _compared(working_copy, values, until)
        return Current(name, version, changed, _of_data(changed, Path(values.data.raw)))
    finally:
        working_copy.remove()
        working_copy.release()


def version_of(checkout: Path, run_id: str, *, commit: str, overlay: Mapping[str, Any], until: Until) -> str:
    """What identifies everything that the stages of a commit would read, data and installed versions included. Raises BadInput."""
    working_copy = workspace.isolate(checkout, f"look-{run_id}", overlay, commit)
    try:
        return _compared(working_copy, working_copy.params(), until)[1]
    finally:
        working_copy.remove()
        working_copy.release()


def _compared(working_copy: Workspace, values: Params, until: Until) -> tuple[Mapping[str, Sequence[str]], str]:
    """What differs from dvc.lock, and the identity of all that the stages would read."""
    changed = changes(working_copy.root, until)
    hashes = stages.read_hashes(working_copy.root, stages.graph(working_copy.root, until=until))
    environment = (working_copy.root / values.paths.environment).read_text(encoding="utf-8")
    return changed, hashlib.sha256(json.dumps([hashes, environment], sort_keys=True).encode()).hexdigest()


def lines(changed: Mapping[str, Sequence[str]]) -> list[str]:
    """What changed, as a list in Markdown; empty where nothing did."""
    return ["changed since dvc.lock:", *(f"* {stage}: {', '.join(names)}" for stage, names in changed.items())] if changed else []


def before(local: Local, version: str) -> Before | None:
    """The retraining that ran this version to an end, if there was one."""
    entry = _read(local).get(version)
    return Before(**entry) if entry else None


def note(local: Local, version: str, *, run: str, outcome: str) -> None:
    """Remember that this version was run, so that it is not run again."""
    entries = {key: item for key, item in _read(local).items() if key != version}
    entries[version] = {"at": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "run": run, "outcome": outcome}
    write_text(local.state / _FILE, json.dumps(dict(list(entries.items())[-_MOST_VERSIONS:]), indent=1) + "\n")


def _of_data(changed: Mapping[str, Sequence[str]], raw: Path) -> tuple[str, ...]:
    names = dict.fromkeys(name for deps in changed.values() for name in deps)
    return tuple(name for name in names if raw in (Path(name), *Path(name).parents) or Path(name) in raw.parents)


def _read(local: Local) -> dict[str, dict[str, str]]:
    try:
        entries: dict[str, dict[str, str]] = json.loads((local.state / _FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return entries
