"""The outcome of a run: one word for Prefect's state and MLflow's tag `reason`, and the exit code."""

from __future__ import annotations

from typing import Any

from prefect import State
from prefect.states import Failed

from paddleship.errors import BadInput, GateFailed, OutOfTime, PaddleshipError, Unavailable

INTERRUPTED = 130
_EXIT_CODES = {kind.outcome: kind.exit_code for kind in (BadInput, OutOfTime, GateFailed, Unavailable)}


def failed(error: PaddleshipError) -> State[Any]:
    """The error as a Prefect state: its name is the outcome, its message is for the user."""
    return Failed(name=error.outcome, message=str(error))


def exit_code(state: State[Any]) -> int:
    """The exit code of `paddleship` for a flow run in this state, wherever it ran."""
    if state.is_completed():
        return 0
    if state.is_cancelled() or state.is_cancelling():
        return INTERRUPTED
    return _EXIT_CODES.get(state.name or "", PaddleshipError.exit_code)


def of_exit_code(code: int) -> str:
    """The outcome that `paddleship` ended with, by its exit code."""
    return next((kind.outcome for kind in (BadInput, GateFailed, Unavailable) if kind.exit_code == code), PaddleshipError.outcome)


def name(state: State[Any]) -> str:
    """The outcome of a flow run that ended in this state and did not complete."""
    return state.name if state.name in _EXIT_CODES else PaddleshipError.outcome
