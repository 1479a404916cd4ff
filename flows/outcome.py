"""The outcome of a run: one word for Prefect's state and MLflow's tag `reason`, and the exit code."""

from __future__ import annotations

from typing import Any

from prefect import State
from prefect.states import Failed

from flows.stages import StageKilled
from paddleship.errors import BadInput, GateFailed, OutOfTime, PaddleshipError, Unavailable

INTERRUPTED = 130
_KINDS: dict[str, type[PaddleshipError]] = {kind.outcome: kind for kind in (BadInput, OutOfTime, GateFailed, Unavailable)}


def failed(error: PaddleshipError) -> State[Any]:
    """The error as a Prefect state: its name is the outcome, its message is for the user."""
    return Failed(name=error.outcome, message=str(error))


def error(state: State[Any]) -> PaddleshipError | None:
    """The error that ended a flow run of another machine; None if it completed."""
    if state.is_completed():
        return None
    kinds = _KINDS | {StageKilled.outcome: StageKilled}
    return kinds.get(state.name or "", PaddleshipError)(state.message or f"the flow run ended as {state.name}: its log says why")


def exit_code(state: State[Any]) -> int:
    """The exit code of `paddleship` for a flow run in this state, wherever it ran."""
    if state.is_completed():
        return 0
    if state.is_cancelled() or state.is_cancelling():
        return INTERRUPTED
    return _KINDS.get(state.name or "", PaddleshipError).exit_code


def of_exit_code(code: int) -> str:
    """The outcome that `paddleship` ended with, by its exit code."""
    return next((kind.outcome for kind in (BadInput, GateFailed, Unavailable) if kind.exit_code == code), PaddleshipError.outcome)


def name(state: State[Any]) -> str:
    """The outcome of a flow run that ended in this state and did not complete."""
    return state.name if state.name in _KINDS else PaddleshipError.outcome
