"""Where a command runs: the checkout, its params, and what of it must be set right before anything else."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.reaper import guard_descendants

if TYPE_CHECKING:
    from flows.local import Local
    from paddleship.config.params import Params


def here() -> tuple[Path, Local]:
    """The checkout and its state; runs that were killed earlier are reported as such first. Raises BadInput."""
    from flows.local import Local
    from flows.workspace import checkout_of

    checkout = checkout_of(Path.cwd())
    local = Local.of(checkout)
    _mark_dead_runs(local)
    if any(local.spool.glob("*/run.json")):
        from tasks.tracking.run import bury

        for run_id in bury(local.spool, tracking_uri=local.tracking_uri()):
            print(f"run {run_id} was killed earlier: MLflow shows it as KILLED", file=sys.stderr)
    return checkout, local


def _mark_dead_runs(local: Local) -> None:
    """Report the flow runs whose process was killed to the Prefect server, if there is one."""
    from flows import dead_runs

    for run_id in dead_runs.mark(local):
        print(f"flow run {run_id} was killed earlier: Prefect shows it as Crashed", file=sys.stderr)


def params_file(checkout: Path, given: str | None) -> str | None:
    """A file that a command was given, as every process of the checkout finds it: relative to the checkout if it is there."""
    if given is None:
        return None
    path = Path(given).absolute()
    return os.path.relpath(path, checkout) if path.is_relative_to(checkout) else str(path)


def values(checkout: Path, params_file: str | None) -> Params:
    """params.yaml of the checkout with a file laid over it. Raises ParamsError."""
    from paddleship.config import params, workspace_paths

    overlay = params.read(checkout / params_file) if params_file else {}
    merged = params.parse(params.merge(params.read(checkout / "params.yaml"), overlay), origin=params_file or "params.yaml")
    workspace_paths.require_inside(merged, checkout)
    return merged


def get_ready(checkout: Path, local: Local) -> Callable[[], None]:
    """Make this process ready to run a flow in the checkout, and begin to start Prefect if no server is available.

    SIGTERM ends the flow as Ctrl-C does, and what it started ends with this process. Returns what waits until Prefect answers.
    """
    os.chdir(checkout)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    guard_descendants()
    return local.serve()


def load_flow(checkout: Path, local: Local, module: str, *, wait: Callable[[], None] | None = None) -> Any:
    """Return the module of a flow, which is imported while Prefect starts, as MLflow's client is. Raises Unavailable if it does not start.

    `wait` is what `get_ready` returned, if it was called before.
    """
    wait = wait or get_ready(checkout, local)
    loaded = importlib.import_module(module)
    from flows import terminal
    from tasks.tracking import sending

    sending.get_ready(local.tracking_uri())
    terminal.tell_errors_once()
    wait()
    return loaded


def run_flow(local: Local, flow: Any, **parameters: Any) -> Any:
    """Run a flow in this process, and return its last state."""
    from flows import dead_runs, heartbeats

    heartbeats.use()
    with dead_runs.known(local):
        return flow(**parameters, return_state=True)


def end(state: Any) -> int:
    """Print the error of a flow run that ended in this state, if it has one, and return the exit code."""
    from flows import outcome

    code = outcome.exit_code(state)
    if code:
        print(f"error: {state.message or state.name}", file=sys.stderr)
    return code
