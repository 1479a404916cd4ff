"""Prefect's automations: runs without heartbeat are marked as crashed, and drift starts a retraining."""

from __future__ import annotations

from datetime import timedelta

from paddleship.servers.local_state import HEARTBEAT_S

DRIFT = "retrain on drift"
EVENT = "paddleship.drift"
_RETRAIN = "retrain/local"
_ONE_CHECK = timedelta(minutes=1)  # a check sends an event for each feature, and they start one run together


def watch_heartbeats() -> None:
    """Mark a run as crashed if it sent no heartbeat for a while, because its machine may be gone."""
    from prefect.automations import Automation
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import ChangeFlowRunState
    from prefect.events.schemas.automations import EventTrigger, Posture

    name = "mark silent runs as crashed"
    try:
        Automation.read(name=name)  # type: ignore[unused-coroutine]
        return
    except ValueError:
        pass
    trigger = EventTrigger(
        after={"prefect.flow-run.heartbeat"},
        expect={
            "prefect.flow-run.heartbeat",
            "prefect.flow-run.Completed",
            "prefect.flow-run.Failed",
            "prefect.flow-run.Cancelled",
            "prefect.flow-run.Crashed",
        },
        match={"prefect.resource.id": ["prefect.flow-run.*"]},
        for_each={"prefect.resource.id"},
        posture=Posture.Proactive,
        threshold=1,
        within=timedelta(seconds=3 * HEARTBEAT_S),
    )
    action = ChangeFlowRunState(state=StateType.CRASHED, message="no heartbeat: worker and flow process are gone")
    Automation(name=name, trigger=trigger, actions=[action]).create()


def retrain_on_drift() -> None:
    """Start the deployment `retrain` of the model's params, with the drifted features as its trigger, when a check finds new drift."""
    from prefect import get_client
    from prefect.automations import Automation
    from prefect.events.actions import RunDeployment
    from prefect.events.schemas.automations import EventTrigger, Posture

    with get_client(sync_client=True) as client:
        deployment_id = client.read_deployment_by_name(_RETRAIN).id
    try:
        Automation.read(name=DRIFT)  # type: ignore[unused-coroutine]
        return  # a deployment keeps its id when it is registered again
    except ValueError:
        pass
    trigger = EventTrigger(
        expect={EVENT},
        match={"prefect.resource.id": ["paddleship.model.*"]},
        for_each={"prefect.resource.id"},
        posture=Posture.Reactive,
        threshold=1,
        within=_ONE_CHECK,
    )
    parameters = {"trigger": "drift of {{ event.payload.features }}", "params_file": "{{ event.payload.params_file }}"}
    action = RunDeployment(source="selected", deployment_id=deployment_id, parameters=parameters)
    Automation(name=DRIFT, description="Drifted features become a retraining.", trigger=trigger, actions=[action]).create()
