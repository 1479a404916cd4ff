"""Notifications: Prefect's own automations and blocks, which the Prefect server runs; addresses come from the environment or a file."""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from paddleship.config.sections.notify import Channel, Notify, Occasion
from paddleship.errors import BadInput
from paddleship.orchestration.automations import EVENT

if TYPE_CHECKING:
    from prefect.events.schemas.automations import EventTrigger

_VARIABLE = "PADDLESHIP_NOTIFY_"
_ONE_CHECK = timedelta(minutes=1)  # a drift check sends an event for each feature
_STATES = {
    "failed": ("Failed", "Crashed", "TimedOut", "BadInput", "OutOfTime", "Unavailable", "Defect", "Killed"),
    "gate-missed": ("GateFailed",),
    "promoted": ("Completed",),
}
_SUBJECT = {
    "failed": "{{ flow.name }} failed: {{ flow_run.name }}",
    "gate-missed": "{{ flow.name }} missed a gate: {{ flow_run.name }}",
    "promoted": "{{ flow.name }}: {{ flow_run.name }}",
    "drift": "drift of {{ event.resource.name }}",
}
_OF_RUN = "{{ event.payload.validated_state.message | default('no message', true) }}"
_OF_DRIFT = "{{ event.payload.features }} of candidate {{ event.payload.candidate_digest }} ({{ event.payload.rows }} requests)"


def set_up(notify: Notify) -> None:
    """Create or renew an automation for every occasion and channel of the params, and delete those of others. Raises BadInput."""
    addresses = {channel: _usable(channel, _address(channel)) for channel in notify.channels}
    wanted = {_name(occasion, channel): (occasion, channel) for occasion in notify.occasions for channel in notify.channels}
    blocks = {channel: _block(channel, address) for channel, address in addresses.items()}
    enabled = {name: _remove(name) for name in _all_names()}
    for name, (occasion, channel) in wanted.items():
        _create(name, occasion, channel, blocks[channel], enabled=enabled[name])


def _address(channel: Channel) -> str:
    """The address of a channel, in the variable of its name or in the file that it names with _FILE. Raises BadInput."""
    variable = f"{_VARIABLE}{channel.upper()}"
    if path := os.environ.get(f"{variable}_FILE"):
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{variable}_FILE names {path!r}, which cannot be read ({type(error).__name__}): correct it") from None
    if address := os.environ.get(variable):
        return address
    raise BadInput(f"notify.channels names {channel!r}, and neither {variable} nor {variable}_FILE is set: set one, or remove the channel")


def _usable(channel: Channel, address: str) -> str:
    """The address, if the channel can send to it: Prefect takes any text, and sends nothing. Raises BadInput, without the address."""
    if channel == "webhook":
        usable = urlsplit(address).scheme in ("http", "https") and bool(urlsplit(address).hostname)
    else:
        usable = _apprise_takes(address)
    if not usable:
        raise BadInput(f"the address of the channel {channel!r} cannot be used: correct {_VARIABLE}{channel.upper()}")
    return address


def _apprise_takes(address: str) -> bool:
    from apprise import Apprise

    logger = logging.getLogger("apprise")
    logger.disabled = True  # it prints an address that it cannot use, which may hold a password
    try:
        return Apprise.instantiate(address) is not None
    finally:
        logger.disabled = False


def _block(channel: Channel, address: str) -> Any:
    """Save Prefect's block of a channel, and return its id. The server encrypts the address."""
    from prefect.blocks.notifications import SlackWebhook
    from prefect.blocks.webhook import Webhook
    from pydantic import SecretStr

    # Prefect has no block for SMTP; that of Slack passes an address which is not Slack's on to Apprise, which sends e-mail too.
    kinds: dict[str, Any] = {"email": SlackWebhook, "slack": SlackWebhook, "webhook": Webhook}
    more = {"headers": {"Content-Type": "application/json"}} if channel == "webhook" else {}
    block = kinds[channel](url=SecretStr(address), **more)
    kinds[channel].register_type_and_schema()
    return block.save(f"paddleship-{channel}", overwrite=True)


def _name(occasion: str, channel: str) -> str:
    return f"notify: {occasion} by {channel}"


def _all_names() -> list[str]:
    from typing import get_args

    return [_name(occasion, channel) for occasion in get_args(Occasion) for channel in get_args(Channel)]


def _remove(name: str) -> bool:
    """Delete an automation. Returns whether it was turned on; one that does not exist counts as turned on."""
    from prefect.automations import Automation

    try:
        automation: Any = Automation.read(name=name)
    except ValueError:
        return True
    automation.delete()
    return bool(automation.enabled)


def _create(name: str, occasion: Occasion, channel: Channel, block: Any, *, enabled: bool) -> None:
    from prefect.automations import Automation
    from prefect.events.actions import CallWebhook, SendNotification

    subject, body = _SUBJECT[occasion], _OF_DRIFT if occasion == "drift" else _OF_RUN
    if channel == "webhook":
        link = "" if occasion == "drift" else ', "url": {{ flow_run | ui_url | tojson }}'
        payload = f'{{"occasion": "{occasion}", "subject": {_json(subject)}, "text": {_json(body)}{link}}}'
        action: Any = CallWebhook(block_document_id=block, payload=payload)
    else:
        link = "" if occasion == "drift" else "\n{{ flow_run | ui_url }}"
        action = SendNotification(block_document_id=block, subject=subject, body=body + link)
    Automation(name=name, enabled=enabled, trigger=_trigger(occasion), actions=[action]).create()


def _json(template: str) -> str:
    """A template that renders the same text as a JSON string."""
    return "{% set text %}" + template + "{% endset %}{{ text | string | tojson }}"


def _trigger(occasion: Occasion) -> EventTrigger:
    from prefect.events.schemas.automations import EventTrigger, Posture

    if occasion == "drift":
        model = {"prefect.resource.id": ["paddleship.model.*"]}
        return EventTrigger(
            expect={EVENT}, match=model, for_each={"prefect.resource.id"}, posture=Posture.Reactive, threshold=1, within=_ONE_CHECK
        )
    of_flow = {"prefect.resource.role": "flow", "prefect.resource.name": ["promote", "rollback"]}
    return EventTrigger(
        expect={f"prefect.flow-run.{state}" for state in _STATES[occasion]},
        match={"prefect.resource.id": ["prefect.flow-run.*"]},
        match_related=of_flow if occasion == "promoted" else {},
        for_each={"prefect.resource.id"},
        posture=Posture.Reactive,
        threshold=1,
        within=timedelta(0),
    )
