"""Names of pipeline runs: the model, the params that differ from the committed ones, and two random words of Prefect."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from prefect.runtime import flow_run

from flows import workspace
from flows.workspace import Workspace
from paddleship.config import params
from paddleship.errors import PaddleshipError
from paddleship.sweep import space

_RANDOM = re.compile(r"[a-z]+(-[a-z]+)+")  # what Prefect calls a run that nobody named
_MOST = 3  # params in a name


def give(place: Workspace) -> str:
    """The name of this run; one of random words gets model and params in front, in Prefect too."""
    from prefect import get_client

    current, committed = str(flow_run.name), {}
    with suppress(PaddleshipError):  # a commit without readable params.yaml: then everything is new, and the name says the model only
        committed = workspace.committed_params(place.root)
    name = describe(current, params.read(place.root / "params.yaml"), committed)
    if name != current:
        with get_client(sync_client=True) as client:
            client.set_flow_run_name(UUID(flow_run.id), name)
    return name


def describe(current: str, values: Mapping[str, Any], committed: Mapping[str, Any]) -> str:
    """`reviews: epochs=3 (calm-otter)` for `calm-otter`; a name that somebody chose is kept.

    Params of another model than the committed one, and sections that variants of a model share, are left out.
    """
    if not _RANDOM.fullmatch(current):
        return current
    model, known = str(values["name"]), dict(_leaves(committed))
    changed = {path: value for path, value in _leaves(values) if path not in known or known[path] != value}
    if "name" in changed:
        return f"{model} ({current})"
    of_stages = [path for path in changed if path.partition(".")[0] not in space.SHARED]
    said = space.label({path: changed[path] for path in of_stages[:_MOST]}) + (", …" if len(of_stages) > _MOST else "")
    return f"{model}{f': {said}' if said else ''} ({current})"


def _leaves(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its path, such as `model.kwargs.width`."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
