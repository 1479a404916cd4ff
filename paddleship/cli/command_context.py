"""Where a command runs: the checkout, its params, and what must be repaired there first."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddleship.execution.reaper import guard_descendants

if TYPE_CHECKING:
    from paddleship.servers.local_state import Local


def open_checkout() -> tuple[Path, Local]:
    """The checkout and its state; runs that were killed earlier are reported as such first. Raises BadInput."""
    from paddleship.execution.workspace import checkout_of
    from paddleship.servers.local_state import Local

    checkout = checkout_of(Path.cwd())
    local = Local.of(checkout)
    _mark_dead_runs(local)
    if any(local.spool.glob("*/run.json")):
        from paddleship.tracking.run import close_dead_runs

        for run_id in close_dead_runs(local.spool, tracking_uri=local.tracking_uri()):
            print(f"run {run_id} was killed earlier: MLflow shows it as KILLED", file=sys.stderr)
    return checkout, local


def _mark_dead_runs(local: Local) -> None:
    """Report the flow runs whose process was killed to the Prefect server, if there is one."""
    from paddleship.orchestration import crashed_runs

    for run_id in crashed_runs.mark(local):
        print(f"flow run {run_id} was killed earlier: Prefect shows it as Crashed", file=sys.stderr)


def get_ready(checkout: Path, local: Local) -> Callable[[], None]:
    """Prepare this process for a flow in the checkout, and begin to start Prefect if no server is available.

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
    sys.path.insert(0, str(checkout))  # flows/ belongs to the checkout, and is not installed
    loaded = importlib.import_module(module)
    from paddleship.orchestration import terminal
    from paddleship.tracking import sending

    sending.get_ready(local.tracking_uri())
    terminal.hide_repeated_errors()
    wait()
    return loaded


def run_flow(local: Local, flow: Any, **parameters: Any) -> Any:
    """Run a flow in this process, and return its last state."""
    from paddleship.orchestration import crashed_runs, heartbeats

    heartbeats.use()
    with crashed_runs.known(local):
        return flow(**parameters, return_state=True)


def end(state: Any) -> int:
    """Print the error of a flow run that ended in this state, if it has one, and return the exit code."""
    from paddleship.orchestration import run_state

    code = run_state.exit_code(state)
    if code:
        print(f"error: {state.message or state.name}", file=sys.stderr)
    return code
