"""Names of flow runs: what it does and with what, then the end of its id, which tells it from others of that description."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.runtime import flow_run

from paddleship.config import loading
from paddleship.config.params import Params
from paddleship.config.sections.train import Train
from paddleship.errors import PaddleshipError
from paddleship.execution import workspace
from paddleship.shipped.computing.files import write_text
from paddleship.sweep import space
from paddleship.tracking import names

_RANDOM = re.compile(r"[a-z]+(-[a-z]+)+")  # what Prefect calls a run that nobody named
_MOST = 6  # params in a name
_FIRST = "first_params.json"
_OWN = ("model.kwargs.", "train.")
_DEFAULTS = {f"train.{key}": value for key, value in Train().model_dump(mode="json").items()}
_CHARACTERS = 120  # of the description: MLflow's database takes 250 for the name of a run, which may have that of a candidate in front


def set_name(description: str) -> str:
    """Rename this flow run to `description (9f31c2)`, if its name is a random one or such a name; one that a user chose stays.

    Returns the name.
    """
    from prefect import get_client

    current = str(flow_run.name)
    name = with_description(current, description, ending=names.ending(str(flow_run.id or "")))
    if name != current:
        with get_client(sync_client=True) as client:
            client.set_flow_run_name(UUID(flow_run.id), name)
    return name


def with_description(current: str, description: str, *, ending: str) -> str:
    if not _RANDOM.fullmatch(current) and not (ending and current.endswith(ending)):
        return current
    return (description if len(description) <= _CHARACTERS else description[: _CHARACTERS - 1] + "…") + ending


def of_pipeline(values: Params, root: Path, state: Path) -> str:
    """What a pipeline run with these params is about, in the commit of the folder `root`; `state` is the state folder of the checkout."""
    committed: dict[str, Any] = {}
    with suppress(PaddleshipError):  # a commit without params.yaml, or with one of another release: the name of the model is enough
        committed = loading.parse(workspace.committed_params(root)).flat()
    flat = values.flat()
    return describe(flat, committed, first=_first(state, flat))


def describe(values: Mapping[str, Any], committed: Mapping[str, Any], *, first: Mapping[str, Any]) -> str:
    """The model, and the params that differ from the committed ones: `reviews: epochs=3`. All params are flat.

    Of another model than the committed one, the params are those that differ from the `first` run of the model; if none does, those that
    its own file usually sets: the model's `kwargs` and `train`. Sections that variants of a model share are left out.
    """
    changed = _changed(values, committed)
    if "name" in changed:
        own = {path: value for path, value in values.items() if path.startswith(_OWN) and value != _DEFAULTS.get(path)}
        changed = _changed(values, first) or own if first else own
    of_stages = [path for path in changed if path.partition(".")[0] not in space.SHARED]
    if not of_stages:
        return str(values["name"])
    label = space.label({path: changed[path] for path in of_stages[:_MOST]})
    return f"{values['name']}: {label}{', …' if len(of_stages) > _MOST else ''}"


def _changed(values: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in values.items() if path not in before or before[path] != value}


def _first(state: Path, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The params of this model's first run in the checkout; these params if there was none."""
    name = str(values["name"])
    known: dict[str, Mapping[str, Any]] = {}
    with suppress(OSError, ValueError):  # the first run, or a file that was damaged
        known = json.loads((state / _FIRST).read_text(encoding="utf-8"))
    if name not in known:
        known[name] = dict(values)
        write_text(state / _FIRST, json.dumps(known) + "\n")
    return known[name]
