"""The flow `drift`: compare requests with the training rows on a schedule, and start what Prefect's automation starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import State, flow, get_run_logger
from prefect.states import Completed

from paddleship.config import params_overlay
from paddleship.errors import PaddleshipError
from paddleship.execution import workspace
from paddleship.orchestration import artifact, crashed_runs, drift_check, run_names, run_state
from paddleship.servers.local_state import Local


@flow(name="drift", validate_parameters=True, log_prints=False)
def drift(
    sample: str | None = None,
    candidate: str | None = None,
    hours: int | None = None,
    params_file: str | None = None,
    retrain: bool = False,
) -> State[Any]:
    """Compare the features of recent requests with those of the training rows.

    Args:
        sample: The folder that servers write their request samples to (--sample); default: drift.sample of params.yaml.
        candidate: The folder of the candidate that serves; default: the one that counted requests last.
        hours: How many of the last hours count; default: drift.hours of params.yaml.
        params_file: A file laid over params.yaml, such as examples/linear/params.yaml.
        retrain: Make new drift an event in Prefect, whose automation "retrain on drift" starts the deployment retrain; the schedule does.
    """
    run_names.set_name(f"drift of {params_file or 'params.yaml'}")
    try:
        checkout = workspace.checkout_of(Path.cwd())
        crashed_runs.hold(Local.of(checkout))
        values = params_overlay.load(checkout, params_file)
        run_names.set_name(f"drift of {values.name}: requests of {hours or values.drift.hours} hours")
        result = drift_check.check(checkout, values, sample=sample, candidate=candidate, hours=hours)
        new = drift_check.notify(Local.of(checkout), result, params_file=params_file) if retrain else []
    except PaddleshipError as error:
        return run_state.failed(error)
    _publish(checkout / values.paths.reports)
    get_run_logger().info("%s%s", result.headline, f"; new: {', '.join(new)}" if new else "")
    return Completed(message=result.headline)


def _publish(reports: Path) -> None:
    """The report as an artifact, with its picture in it."""
    text = (reports / drift_check.REPORT).read_text(encoding="utf-8")
    text = text.replace(f"({drift_check.PICTURE})", f"({artifact.address(reports / drift_check.PICTURE)})")
    artifact.publish("drift", text, description="Features of requests against those of training rows")
