"""The flow `compare-graph-modes`: run the comparison as a process of its own, log it to MLflow, show its page in Prefect."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml
from prefect import State, flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run
from prefect.states import Completed

from paddleship import errors
from paddleship.config import loading, workspace_paths
from paddleship.config.graph_modes import ModeName, NetworkName
from paddleship.config.params import Params
from paddleship.errors import GateFailed, PaddleshipError
from paddleship.orchestration import artifact, crashed_runs, run_names, run_state
from paddleship.reports.report import Report
from paddleship.servers.local_state import Local
from paddleship.tracking.run import Tracker

NAME = "compare-graph-modes"


@flow(name=NAME, validate_parameters=True, log_prints=False)
def compare_graph_modes(
    full: bool = False,
    networks: list[NetworkName] | None = None,
    modes: list[ModeName] | None = None,
    rounds: int | None = None,
    threads: int | None = None,
    torch_site: str | None = None,
) -> State[Any]:
    """Measure the graph modes of Paddle and PyTorch side by side on this machine and say which common claims it confirms.

    Args:
        full: Sizes for GPUs; the others are for two cores.
        networks: Some of linear, reviews and resnet50; all of them when left out, as in params.yaml.
        modes: Some of the modes, by name; all of them when left out.
        rounds: Interleaved blocks that the intervals are taken over.
        threads: Threads and cores of every mode.
        torch_site: The site-packages folder of PyTorch, where it is not installed beside Paddle.
    """
    run_names.set_name(f"graph modes of {', '.join(networks or ['all networks'])}")
    settings: dict[str, Any] = {"networks": networks, "modes": modes, "rounds": rounds, "threads": threads, "torch_site": torch_site}
    settings = {key: value for key, value in settings.items() if value is not None} | ({"full": True} if full else {})
    root = Path.cwd()
    try:
        values = _values(root, settings)
    except PaddleshipError as error:
        return run_state.failed(error)
    local = Local.of(root)
    crashed_runs.hold(local)
    name = run_names.set_name(f"graph modes of {', '.join(values.graph_modes.networks)}")
    tags = {"mlflow.runName": name, "prefect_flow_run": str(flow_run.id)}
    tracker = Tracker.start(values, tracking_uri=local.tracking_uri(), artifact_root=local.artifact_root, spool=local.spool, tags=tags)
    failure: PaddleshipError | None = None
    try:
        failure = compare(values, root)
        reports = root / values.paths.reports
        report = Report.read(reports, NAME) if failure is None or isinstance(failure, GateFailed) else None  # else an earlier run's
        if report is not None:
            tracker.log_report(report, reports, cached=False)
            _publish(report, reports, tracker)
    except BaseException as error:
        tracker.stop(error)
        raise
    tracker.finish(failure)
    if failure is not None:
        return run_state.failed(failure)
    return Completed(message=report.headline if report else "")


@task(name="compare", cache_policy=NO_CACHE, persist_result=False)
def compare(values: Params, root: Path) -> PaddleshipError | None:
    """Run the comparison as a process and print its lines as they come. Returns its error, or None."""
    log, last = get_run_logger(), ""
    with tempfile.TemporaryDirectory(prefix="paddleship-") as folder:
        file = Path(folder) / "params.yaml"
        file.write_text(yaml.safe_dump(values.model_dump(mode="json"), sort_keys=False, allow_unicode=True), encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.graph_modes", "--params", str(file)],
            cwd=root,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        try:
            for line in process.stdout or ():
                log.info(line.rstrip())
                last = line.strip() or last
            code = process.wait()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return errors.of_exit_code(code)(last.removeprefix("error: ") or f"it ended with exit code {code}") if code else None


def _values(root: Path, settings: dict[str, Any]) -> Params:
    """params.yaml with the settings of this run, under the name of the flow. Raises ParamsError."""
    overlay = {"name": NAME, "graph_modes": settings}
    values = loading.parse(loading.merge(loading.read(root / "params.yaml"), overlay))
    workspace_paths.require_inside(values, root)
    return values


def _publish(report: Report, reports: Path, tracker: Tracker) -> None:
    """Publish the artifact of the flow run: the page, and links to its pictures."""
    page = (reports / str(report.facts["page"])).read_text(encoding="utf-8")
    links = artifact.links({"Modes, curves and pictures in MLflow": tracker.url})
    artifact.publish(NAME, page, links, description="Each claim and whether this machine confirms it; every mode's figures")
