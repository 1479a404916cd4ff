"""A rollback, and the steps that it shares with a promotion; without Prefect, so that no rollback waits for a server."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paddleship.config import params_overlay
from paddleship.config.params import Params
from paddleship.containers import image
from paddleship.errors import GateFailed, Unavailable
from paddleship.execution import workspace
from paddleship.promotion import answers
from paddleship.promotion.answers import Recording
from paddleship.promotion.ledger import Entry, Event, Ledger, Shipped
from paddleship.rollout.rollout_steps import STEPS, Rollout, require_moved_tags, unchanged_services
from paddleship.servers.local_state import Local
from paddleship.system import locks
from paddleship.tracking.champion import Registry

REASON_CHARACTERS = 2000  # of a refusal in the ledger: MLflow takes 8,000 an entry

Step = Callable[[str, Callable[[], Any]], Any]
Say = Callable[[str], None]


def roll_back(
    version: str | None, params_file: str | None, *, reason: str, step: Step, say: Say, name: Callable[[str], object] = lambda _: None
) -> str:
    """Bring a former champion back; returns a message with what serves now and how long it took. `step` does each step under its name.

    `reason` is that of the person who asks, for the ledger. `name` gets a name of the rollback as soon as its version is known.
    """
    began = time.monotonic()
    checkout, values, local = settings(params_file)
    registry: Registry | None = None
    try:
        registry = Registry(local.tracking_uri(), values.name, artifact_root=local.artifact_root)
    except Unavailable as trouble:
        say(f"{trouble}; the rollback goes on without it")
    with image.engine() as client, locks.turn_on_machine(f"promote-{values.name}", say=say):
        ledger = Ledger(checkout / values.promote.ledger, values.name, elsewhere=registry.entries() if registry else ())
        decision, result = ledger.unfinished(), ""
        if decision is None or decision.action != "rollback" or version not in (None, decision.shipped.version):
            serving, wanted = ledger.serving(), ledger.former(version)
            stays = serving is not None and serving.shipped.image_id == wanted.image_id
            replaces = serving.shipped.version if serving else None
            why = f"version {wanted.version} stays champion" if stays else f"rolled back from version {replaces} to {wanted.version}"
            why += f": {' '.join(reason.split())}"[:REASON_CHARACTERS] if reason.strip() else ""
            result = _side_effects(decision, wanted, stays=stays, asked=version)
            decision = ledger.append(Entry(event=Event.DECIDED, action="rollback", shipped=wanted, replaces=replaces, why=why))
        name(f"roll back {values.name} to version {decision.shipped.version}")
        message = carry_out(
            Rollout(values, client, registry, ledger, decision, recording_of(ledger, registry, decision.shipped), accept=None), step=step
        )
    return f"{message}{result}, in {time.monotonic() - began:.1f} s"


def _side_effects(begun: Entry | None, wanted: Shipped, *, stays: bool, asked: str | None) -> str:
    """What a rollback does besides bringing a version back: to an unfinished promotion, and if that version serves already."""
    text = " as before" if stays else ""
    if begun is not None and begun.action == "promote" and begun.shipped.image_id != wanted.image_id:
        text += f"; the promotion of version {begun.shipped.version}, which had begun, is given up"
        text += "; to go behind the champion, give the command again" if stays and asked is None else ""
    return text


def settings(params_file: str | None) -> tuple[Path, Params, Local]:
    """The checkout of this process, its params, and its state. Raises BadInput."""
    checkout = workspace.checkout_of(Path.cwd())
    return checkout, params_overlay.load(checkout, params_file), Local.of(checkout)


def carry_out(rollout: Rollout, *, step: Step) -> str:
    """Run each step by `step` under its name. Returns a message with what serves now. Raises GateFailed, with the refusal in the ledger."""
    serving = rollout.ledger.serving()
    before = None if serving is not None and serving.shipped.image_id == rollout.shipped.image_id else rollout.decision.replaces
    for each in STEPS:
        try:
            step(each.__name__, lambda each=each: each(rollout))  # type: ignore[misc]
        except GateFailed as refusal:
            rollout.ledger.append(rollout.decision.followed_by(Event.REFUSED, why=str(refusal)[:REASON_CHARACTERS]))
            raise
    unsure = step("former registries", lambda: require_moved_tags(rollout))
    return "; ".join([_outcome(rollout, before), *unchanged_services(rollout), *unsure])


def _outcome(rollout: Rollout, before: str | None) -> str:
    """A message: which version is champion now, and where it serves."""
    text = f"version {rollout.shipped.version} of {rollout.shipped.model} is champion"
    if rollout.where and rollout.unapplied is None:
        text += f" and serves as {rollout.where}"
    text += f", in the place of version {before}" if before and before != rollout.shipped.version else ""
    if rollout.where is None:
        return f"{text}; promote.target is null, so no server was started or changed"
    if rollout.unapplied is None:
        return text
    until = f", and version {before} does until then" if before and before != rollout.shipped.version else ""
    return f"{text}; it serves after `kubectl apply -f {rollout.unapplied}`{until}"


def recording_of(ledger: Ledger, registry: Registry | None, shipped: Shipped) -> Recording:
    """The recorded answers of an image, from the checkout or else from MLflow."""
    recording = answers.load(ledger.recordings, shipped.candidate_digest)
    return recording or (registry.recording(shipped) if registry else [])
