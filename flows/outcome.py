"""How a run ended: one word as the name of Prefect's state and MLflow's tag `reason`, and `paddleship`'s exit code for it."""

from __future__ import annotations

from typing import Any

from prefect import State
from prefect.states import Failed

from paddleship.errors import BadInput, GateFailed, OutOfTime, PaddleshipError, Unavailable

_INTERRUPTED = 130
_EXIT_CODES = {kind.outcome: kind.exit_code for kind in (BadInput, OutOfTime, GateFailed, Unavailable)}


def failed(error: PaddleshipError) -> State[Any]:
    """The error as a state: its name is the outcome, its message what the user reads."""
    return Failed(name=error.outcome, message=str(error))


def exit_code(state: State[Any]) -> int:
    """What `paddleship` ends with for a flow run in this state, wherever the run was."""
    if state.is_completed():
        return 0
    if state.is_cancelled() or state.is_cancelling():
        return _INTERRUPTED
    return _EXIT_CODES.get(state.name or "", PaddleshipError.exit_code)
