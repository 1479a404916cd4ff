"""Find runs in MLflow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PARENT = "mlflow.parentRunId"
_PAGE = 1000


def pages(client: Any, experiments: list[str], query: str) -> Iterator[Any]:
    """All runs that a query finds, the newest first."""
    token = None
    while True:
        page = client.search_runs(experiments, query, max_results=_PAGE, order_by=["attributes.start_time DESC"], page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def candidates(client: Any, experiment_id: str, run_id: str) -> list[Any]:
    """The candidate runs of a pipeline run; the other children of a sweep's run are pipeline runs."""
    children = pages(client, [experiment_id], f"tags.`{PARENT}` = '{run_id}'")
    return [child for child in children if "prefect_flow_run" not in child.data.tags]
