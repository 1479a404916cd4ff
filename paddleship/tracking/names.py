"""Names of runs, in Prefect and in MLflow."""

from __future__ import annotations

_CHARACTERS = 6  # of an id: its last ones, because the ids of flow runs of one minute begin alike


def ending(flow_run: str) -> str:
    """What tells apart runs of one description, at the end of their names; empty without a flow run."""
    return f" ({flow_run.replace('-', '')[-_CHARACTERS:]})" if flow_run else ""
