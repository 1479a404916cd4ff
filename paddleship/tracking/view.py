"""A shared view of MLflow's runs page: every measured candidate, fastest first, with the columns and charts for a decision.

MLflow stores a shared view as a tag of the experiment. The format is not documented, so it is written only for tested versions of
MLflow. With another version, the link orders the runs and leaves the columns as they are.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any
from urllib.parse import urlencode

from paddleship.errors import without_credentials

KEY = "paddleship"
_TAGS = "mlflow.sharedViewState."
TAG = f"{_TAGS}{KEY}"
MODE = "workflowType=machine_learning"  # part of an address, so that the page does not open in its GenAI mode
_TRIED = ("3.17.",)
MEASURED = "tags.status = 'measured'"
_COLUMNS = (
    "tags.`run`", "tags.`winner`", "metrics.`speedup`", "metrics.`p50_ms`", "metrics.`p99_ms`", "metrics.`test_score`",
    "metrics.`noise_ratio`", "metrics.`added_image_bytes`", "tags.`benchmark_valid`",
)  # fmt: skip
_BARS = {
    "speedup": "Speedup against eager",
    "p50_ms": "Median latency in ms",
    "p99_ms": "Latency in ms, 99 of 100 requests",
    "test_score": "Score of the eager model on all test rows",
    "noise_ratio": "Error against float64, in units of eager's own",
}
_PARETO = {
    "Score against latency": ("p50_ms", "test_score"),
    "Bytes that the image needs on top of its base, against latency": ("p50_ms", "added_image_bytes"),
}


def share(client: Any, experiment_id: str, *, sweep: str | None = None, title: str = "Which candidate is better") -> None:
    """Write the view of all candidates, or of a sweep's winners, into the experiment, unless it is there in this form already."""
    tag, state = f"{_TAGS}{sweep or KEY}", _encoded(sweep, title)
    if _known_version() and client.get_experiment(experiment_id).tags.get(tag) != state:
        client.set_experiment_tag(experiment_id, tag, state)


def link(uri: str, experiment_id: str, *, sweep: str | None = None) -> str:
    """The address of the view on the server at `uri`, without its user; relative to MLflow's pages if `uri` is empty."""
    server = without_credentials(uri).rstrip("/")
    address = f"{server}{'/' if uri else ''}#/experiments/{experiment_id}/runs?{MODE}&"
    if _known_version():
        return address + urlencode({"viewStateShareKey": sweep or KEY, "compareRunsMode": "CHART"})
    order = {"orderByKey": "metrics.`speedup`", "orderByAsc": "false"}
    return address + urlencode({"searchFilter": _filter(sweep), "compareRunsMode": "CHART", **order})


def page(uri: str, experiment_id: str | None, run_id: str) -> str | None:
    """The address of a run on the server at `uri`, without its user; None without a server or an experiment."""
    server = without_credentials(uri).rstrip("/")
    return f"{server}/#/experiments/{experiment_id}/runs/{run_id}?{MODE}" if uri.startswith("http") and experiment_id else None


def rank(metric: str) -> int:
    """The position of a metric among the charts of the view; those without a chart come last."""
    charted = list(_BARS)
    return charted.index(metric) if metric in charted else len(charted)


def _filter(sweep: str | None) -> str:
    return f"tags.sweep = '{sweep}' AND tags.winner = 'True'" if sweep else MEASURED


def _known_version() -> bool:
    from mlflow.version import VERSION

    return str(VERSION).startswith(_TRIED)


def _encoded(sweep: str | None, title: str) -> str:
    """The view in MLflow's format: JSON, deflated, in base64."""
    text = json.dumps(_state(sweep, title), separators=(",", ":"), sort_keys=True)
    return "deflate;" + base64.b64encode(zlib.compress(text.encode())).decode()


def _state(sweep: str | None, title: str) -> dict[str, Any]:
    bars = [_chart("BAR", label, metricKey=metric) for metric, label in _BARS.items()]
    pareto = [_chart("SCATTER", label, xaxis=_axis(x), yaxis=_axis(y)) for label, (x, y) in _PARETO.items()]
    return {
        "searchFilter": _filter(sweep),
        "lifecycleFilter": "Active",
        "modelVersionFilter": "All Runs",
        "datasetsFilter": [],
        "startTime": "ALL",
        "orderByKey": "metrics.`speedup`",
        "orderByAsc": False,
        "selectedColumns": [*(["tags.`sweep_variant`"] if sweep else []), *_COLUMNS],
        "runsHiddenMode": "SHOW_ALL",
        "hideEmptyCharts": True,
        "compareRunSections": [{"uuid": KEY, "name": title, "display": True, "isReordered": True}],
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
