"""Log the metrics of a training stage while it runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from paddleship.tracking.client import connect, epoch_metrics


def live_metrics() -> Callable[[Mapping[str, float], int], None] | None:
    """A function that logs an epoch's metrics into the run MLFLOW_RUN_ID; None without a run."""
    run_id, uri = os.environ.get("MLFLOW_RUN_ID"), os.environ.get("MLFLOW_TRACKING_URI")
    if not run_id or not uri:
        return None
    client: list[Any] = []

    def log(metrics: Mapping[str, float], epoch: int) -> None:
        try:
            if not client:
                client.append(connect(uri))
            if client[0] is not None:
                client[0].log_batch(run_id, metrics=epoch_metrics([metrics], first=epoch, at_ms=int(time.time() * 1000)))
        except Exception as error:
            client[:] = [None]
            print(f"warning: MLflow does not take live metrics ({type(error).__name__}); they come with the report", file=sys.stderr)

    return log
