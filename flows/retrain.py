"""The flow `retrain`: what schedules, new data and drift start. It runs develop-to-deploy if something changed, once for each version."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from prefect import State, flow, get_client, get_run_logger
from prefect.runtime import flow_run
from prefect.states import Completed

from flows.pipeline import develop_to_deploy
from paddleship.config import loading
from paddleship.errors import BadInput, GateFailed, PaddleshipError
from paddleship.execution import cleanup, workspace
from paddleship.execution.stages import Until
from paddleship.orchestration import crashed_runs, pending_changes, run_state
from paddleship.servers.local_state import Local

_NAME_CHARACTERS = 80
_ENDED = ("Completed", BadInput.outcome, GateFailed.outcome)  # another run of the same version would end in the same way


def _name() -> str:
    return f"retrain: {flow_run.parameters.get('trigger', '')}"[:_NAME_CHARACTERS]


@flow(name="retrain", flow_run_name=_name, validate_parameters=True, log_prints=False)
def retrain(
    trigger: str = "by hand",
    commit: str | None = None,
    watch: Literal["everything", "data"] = "everything",
    params_file: str | None = None,
    until: Until = "accept",
    register_model: bool = True,
    force: bool = False,
) -> State[Any]:
    """Run the pipeline on the current data if something that matters changed since dvc.lock, and not again for a version that it ran.

    Args:
        trigger: Why this run was started; part of its name and its tags, and the tag trigger in MLflow.
        commit: A branch of the git remote, whose last commit is fetched, or a commit or tag; default: the checked-out commit.
        watch: everything: params, code, data and installed versions; data: only run if data.raw changed.
        params_file: A file laid over params.yaml, such as examples/linear/params.yaml.
        until: The last stage to run.
        register_model: Register the accepted candidate in MLflow as challenger.
        force: Run although nothing changed, or although the same version was run before.
    """
    log = get_run_logger()
    params_file = params_file or None  # the automation has only text
    _tag(trigger)
    try:
        checkout = workspace.checkout_of(Path.cwd())
        local = Local.of(checkout)
        crashed_runs.hold(local)
        cleanup.sweep(checkout, on_line=log.warning)
        overlay = loading.read(checkout / params_file) if params_file else {}
        pending = pending_changes.detect(checkout, str(flow_run.id), commit=commit, overlay=overlay, until=until)
    except PaddleshipError as error:
        return run_state.failed(error)
    if not force and (idle := _nothing_new(local, pending, only_data=watch == "data")):
        log.info(idle)
        return Completed(name="NothingNew", message=idle)
    log.info("%s: %s", trigger, "; ".join(pending_changes.lines(pending.changed)) or "nothing changed, and force is set")
    parameters: dict[str, Any] = {"params_file": params_file, "until": until, "register_model": register_model}
    state: State[Any] = develop_to_deploy(**parameters, isolated=True, commit=pending.commit, trigger=trigger, return_state=True)
    if state.name in _ENDED:
        pending_changes.note(local, pending.version, run=str(flow_run.name), outcome=str(state.name))
    return type(state)(type=state.type, name=state.name, message=state.message)


def _nothing_new(local: Local, pending: pending_changes.Current, *, only_data: bool) -> str | None:
    """Why there is nothing to run; None if there is something."""
    if not pending.changed:
        return "nothing new: params, code, data and installed versions are those of dvc.lock"
    if only_data and not pending.data:
        return "nothing new: data.raw is that of dvc.lock"
    if earlier := pending_changes.before(local, pending.version):
        return f"nothing new: the same params, code, data and versions were run on {earlier.at} ({earlier.run}: {earlier.outcome})"
    return None


def _tag(trigger: str) -> None:
    with get_client(sync_client=True) as client:
        client.update_flow_run(flow_run.id, tags=[*dict.fromkeys([*(flow_run.tags or []), "retrain", trigger])])
