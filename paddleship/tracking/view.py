"""Shared views of MLflow's runs page, as a table for a decision: the winner of each run, all measured candidates, the winners of a sweep.

MLflow stores a shared view as a tag of the experiment. The format is not documented, so it is written only for tested versions of
MLflow. With another version, the link orders the runs and leaves the columns as they are.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import urlencode

from paddleship.errors import without_credentials
from paddleship.tracking import search

KEY = "paddleship"
TAGS = "mlflow.sharedViewState."
MODE = "workflowType=machine_learning"  # part of an address, so that the page does not open in its GenAI mode
_TRIED = ("3.17.",)
_MODE_OF_PAGE = "TABLE"
_WIDTHS = {  # in pixels, in the order of the columns
    "attributes.`Run Name`": 240,
    "runDateAndNestInfo": 138,  # when it was made
    "tags.`score`": 166,
    "tags.`speedup`": 140,
    "metrics.`p50_us`": 62,
    "tags.`size`": 122,
    "tags.`verdict`": 122,
}
_COLUMNS = [column for column in _WIDTHS if column.startswith(("tags.", "metrics."))]
_PARAM_WIDTH = 145
_CREATED = 0  # a time, the same whenever it is written, so that equal views are equal text
_MOST_PARAMS, _MOST_RUNS = 4, 200  # that are compared for columns of params
_BARS = {
    "speedup": "Speedup against eager",
    "score": "Score of the eager model on the validation rows",
    "p50_us": "Median latency in µs",
    "p99_ms": "Latency in ms, 99 of 100 requests",
    "noise_ratio": "Error against float64, in units of eager's own",
}
_PARETO = {
    "Score against latency": ("p50_us", "score"),
    "Bytes that the image needs on top of its base, against latency": ("p50_us", "added_image_bytes"),
}


@dataclass(frozen=True)
class View:
    """The runs of a view and their order; `key` names it in the address."""

    key: str
    title: str
    runs: str
    order: str = "metrics.`score`"
    ascending: bool = False


WINNERS = View(KEY, "Which run is better", "tags.winner = 'True'")
CANDIDATES = View(f"{KEY}-candidates", "Which candidate is better", "tags.status = 'measured'", "metrics.`p50_us`", ascending=True)


def of_sweep(name: str, title: str = "") -> View:
    """The winners of the variants of a sweep."""
    return View(name, title, f"tags.sweep = '{name}' AND {WINNERS.runs}")


def share(client: Any, experiment_id: str, *views: View) -> None:
    """Write views into the experiment, with a column for each param in which their runs differ, unless they are there in this form."""
    if not _known_version():
        return
    tags = client.get_experiment(experiment_id).tags
    for view in views:
        state = _encoded(view, _differing(islice(search.pages(client, [experiment_id], view.runs), _MOST_RUNS)))
        if tags.get(f"{TAGS}{view.key}") != state:
            client.set_experiment_tag(experiment_id, f"{TAGS}{view.key}", state)


def link(uri: str, experiment_id: str, view: View = WINNERS) -> str:
    """The address of a view on the server at `uri`, without its user; relative to MLflow's pages if `uri` is empty."""
    server = without_credentials(uri).rstrip("/")
    address = f"{server}{'/' if uri else ''}#/experiments/{experiment_id}/runs?{MODE}&compareRunsMode={_MODE_OF_PAGE}&"
    if _known_version():
        return address + urlencode({"viewStateShareKey": view.key})
    return address + urlencode({"searchFilter": view.runs, "orderByKey": view.order, "orderByAsc": str(view.ascending).lower()})


def page(uri: str, experiment_id: str | None, run_id: str) -> str | None:
    """The address of a run on the server at `uri`, without its user; None without a server or an experiment."""
    server = without_credentials(uri).rstrip("/")
    return f"{server}/#/experiments/{experiment_id}/runs/{run_id}?{MODE}" if uri.startswith("http") and experiment_id else None


def rank(metric: str) -> int:
    """The position of a metric among the charts of the view; those without a chart come last."""
    charted = list(_BARS)
    return charted.index(metric) if metric in charted else len(charted)


def _differing(runs: Iterable[Any]) -> list[str]:
    """The params in which these runs differ, as columns; those that made the model come before its seed and data."""
    params = [run.data.params for run in runs]
    paths = sorted({path for row in params for path in row if "." in path or path == "seed"}, key=_of_model)
    return [f"params.`{path}`" for path in paths if len({row.get(path) for row in params}) > 1][:_MOST_PARAMS]


def _of_model(path: str) -> tuple[bool, str]:
    return not path.startswith(("model.", "train.")), path


def _known_version() -> bool:
    from mlflow.version import VERSION

    return str(VERSION).startswith(_TRIED)


def _encoded(view: View, params: list[str]) -> str:
    """The view in MLflow's format, with the name under which its menu "Views" lists it; the state is JSON, deflated, in base64."""
    text = json.dumps(_state(view, params), separators=(",", ":"), sort_keys=True)
    state = "deflate;" + base64.b64encode(zlib.compress(text.encode())).decode()
    return json.dumps({"name": view.title, "createdAt": _CREATED, "updatedAt": _CREATED, "state": state})


def _state(view: View, params: list[str]) -> dict[str, Any]:
    bars = [_chart("BAR", label, metricKey=metric) for metric, label in _BARS.items()]
    pareto = [_chart("SCATTER", label, xaxis=_axis(x), yaxis=_axis(y)) for label, (x, y) in _PARETO.items()]
    return {
        "searchFilter": view.runs,
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "startTime": "ALL",
        "orderByKey": view.order,
        "orderByAsc": view.ascending,
        "selectedColumns": [*_COLUMNS, *params],
        "columnOrder": [*_WIDTHS, *params],
        "columnWidths": _WIDTHS | dict.fromkeys(params, _PARAM_WIDTH),
        "runsHiddenMode": "SHOW_ALL",
        "hideEmptyCharts": True,
        "compareRunSections": [{"uuid": KEY, "name": view.title, "display": True, "isReordered": True}],
        "compareRunCharts": [*bars, *pareto],
        "isAccordionReordered": True,
    }


def _chart(kind: str, label: str, **what: Any) -> dict[str, Any]:
    return {
        "uuid": f"{KEY} {label}",
        "type": kind,
        "displayName": label,
        "metricSectionId": KEY,
        "runsCountToCompare": 20,
        "deleted": False,
        "isGenerated": False,
        **what,
    }


def _axis(metric: str) -> dict[str, str]:
    return {"key": metric, "type": "METRIC"}
