"""The outcome of a run: one word for Prefect's state and MLflow's tag `reason`, and the exit code."""

from __future__ import annotations

from typing import Any

from prefect import State
from prefect.states import Cancelled, Failed

from paddleship import errors
from paddleship.errors import PaddleshipError
from paddleship.execution.stages import StageKilled
from paddleship.orchestration import terminal


def failed(error: PaddleshipError) -> State[Any]:
    """The error as a Prefect state: its name is the outcome, its message is for the user. A worker logs it without a traceback."""
    terminal.hide_tracebacks()
    kind = Cancelled if isinstance(error, errors.Cancelled) else Failed
    return kind(name=error.outcome, message=str(error))


def error(state: State[Any]) -> PaddleshipError | None:
    """The error that ended a flow run of another machine; None if it completed."""
    if state.is_completed():
        return None
    kind = StageKilled if state.name == StageKilled.outcome else errors.of_outcome(state.name)
    return kind(state.message or f"the flow run ended as {state.name}: its log says why")


def exit_code(state: State[Any]) -> int:
    """The exit code of `paddleship` for a flow run in this state, wherever it ran."""
    if state.is_completed():
        return 0
    if state.is_cancelled() or state.is_cancelling():
        return errors.Cancelled.exit_code
    return errors.of_outcome(state.name).exit_code
