"""Apply a promotion or rollback in steps. Each step may run again, so a command that was killed is repeated as it is.

The old champion serves until `switch`. The ledger's entry comes right after it; the later steps update the registry and MLflow, and
stop the old server. A rollback gets as far as the entry with neither MLflow nor the registry.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddleship.acceptance.transport import ServerError
from paddleship.acceptance.transports import server_at
from paddleship.config.params import Params
from paddleship.containers import image, image_test
from paddleship.containers.sandbox import in_sandbox
from paddleship.errors import GateFailed, Unavailable
from paddleship.promotion import answers, signatures
from paddleship.promotion.answers import Recording
from paddleship.promotion.ledger import Entry, Event, Ledger, Shipped, missing
from paddleship.reports.verdict import Check
from paddleship.rollout import docker_target, image_registry, signature_registry
from paddleship.rollout.docker_target import DockerTarget
from paddleship.rollout.kubernetes_target import KubernetesTarget
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import read_json
from paddleship.tracking.champion import Registry


@dataclass
class Rollout:
    """What the steps work on. `accept` judges an image in full by its id; None where only the recorded answers are compared.

    `shipped` and `slot` are set by the steps.
    """

    params: Params
    client: Any
    registry: Registry | None
    ledger: Ledger
    decision: Entry
    recording: Recording
    accept: Callable[[str], None] | None
    shipped: Shipped = field(init=False)
    slot: str = ""

    def __post_init__(self) -> None:
        self.shipped = self.decision.shipped

    @property
    def target(self) -> DockerTarget | None:
        return target_of(self.params, self.client)

    @property
    def unapplied(self) -> str | None:
        """The manifest that the user has to apply before the version serves."""
        settings = self.params.promote.target
        return settings.manifest if settings is not None and settings.kind == "kubernetes" and settings.context is None else None

    @property
    def where(self) -> str | None:
        """The service and its address or namespace, as text; None without a target."""
        settings = self.params.promote.target
        if settings is None:
            return None
        if settings.kind == "docker":
            return docker_target.where(settings.name, f"{settings.address}:{settings.port}")
        return f"{settings.name} in {settings.namespace}"

    @property
    def pushed(self) -> bool:
        """Whether the registry of the params, if they name one, has the image under its digest."""
        registry = self.params.promote.registry
        return registry is None or image_registry.holds(registry, self.shipped)

    @property
    def may_push_later(self) -> bool:
        """Whether the version can serve before the registry has its image: a rollback waits for none, unless a cluster pulls from it."""
        settings = self.params.promote.target
        pulls = settings is not None and settings.kind == "kubernetes" and self.shipped.reference is None
        return self.decision.action == "rollback" and not pulls

    @property
    def status(self) -> str:
        """The start of an error message after the ledger has the version: that it serves, or is champion."""
        return f"version {self.shipped.version} {'serves' if self.where else 'is champion in the ledger'}"


def target_of(params: Params, client: Any) -> DockerTarget | None:
    """The Docker host that the params name as the target."""
    settings = params.promote.target
    if settings is None or settings.kind != "docker":
        return None
    return DockerTarget(client, settings, memory_bytes=params.accept.memory_bytes)


def push(rollout: Rollout) -> None:
    """Push the image to the registry of the params, unless it is there, and refer to it by its digest from now on.

    Raises Unavailable, except for a rollback that does not need the registry: `point` then reports it, after the version serves.
    """
    registry = rollout.params.promote.registry
    if registry is None or rollout.pushed:
        return
    try:
        reference = image_registry.push(rollout.client, registry, rollout.shipped)
    except Unavailable:
        if not rollout.may_push_later:
            raise
        return
    rollout.shipped = rollout.shipped.model_copy(update={"reference": reference})


def verify(rollout: Rollout) -> None:
    """Pull the image by its digest, check its signature, and that its answers are as before. Raises GateFailed, Unavailable."""
    identity = _obtain(rollout)
    if not (check := pulled_check(rollout.shipped, identity)).passed:
        raise GateFailed(str(check))
    _require_signature(rollout)
    if rollout.accept is not None:
        rollout.accept(identity)
    else:
        check = recorded_check(_departures(rollout, identity), rollout.recording)
        if not check.passed:
            raise GateFailed(str(check))


def start(rollout: Rollout) -> None:
    """Start the new server beside the old one, and wait until it is ready."""
    if (target := rollout.target) is not None:
        before = rollout.ledger.serving()
        rollout.slot = target.start(rollout.shipped.image_id, before=before.shipped.image_id if before else None)
        target.wait_until_ready(rollout.slot, timeout_s=rollout.params.accept.ready_timeout_s)


def switch(rollout: Rollout) -> None:
    """Send the requests to the new server: at once on a Docker host, one server after another in a cluster."""
    if (target := rollout.target) is not None:
        target.switch(rollout.slot)
    settings, accept = rollout.params.promote.target, rollout.params.accept
    if settings is not None and settings.kind == "kubernetes":
        cluster = KubernetesTarget(settings, memory_bytes=accept.memory_bytes, ready_timeout_s=accept.ready_timeout_s)
        before = rollout.ledger.serving()
        cluster.roll_out(rollout.shipped, before=before.shipped if before else None)


def note(rollout: Rollout) -> None:
    """Add to the ledger what serves now, and where."""
    last = rollout.ledger.serving()
    if last is None or (last.shipped, last.target) != (rollout.shipped, rollout.where) or last.at < rollout.decision.at:
        why = f"{rollout.decision.why}; {rollout.unapplied} was written, and not applied" if rollout.unapplied else rollout.decision.why
        rollout.ledger.append(rollout.decision.followed_by(Event.SERVING, shipped=rollout.shipped, why=why, target=rollout.where))


def point(rollout: Rollout) -> None:
    """Move the tag `champion` of the image. Raises Unavailable."""
    if not rollout.pushed:
        registry = rollout.params.promote.registry
        raise Unavailable(f"{rollout.status}, but {registry} did not take its image: when it does, run the same command again")
    image_registry.point(rollout.client, rollout.shipped)


def crown(rollout: Rollout) -> None:
    """Move MLflow's alias, and send it the entries of the ledger that it lacks. Raises Unavailable."""
    if rollout.registry is None:
        raise Unavailable(f"{rollout.status}, but MLflow did not answer: when it does, run the same command again")
    rollout.registry.set_champion(rollout.shipped)
    if rollout.ledger.unfinished() is not None:
        rollout.ledger.append(rollout.decision.followed_by(Event.SETTLED, shipped=rollout.shipped))
    send(rollout.registry, rollout.ledger)


def retire(rollout: Rollout) -> None:
    """End the old server."""
    if (target := rollout.target) is not None:
        target.retire()


STEPS = (push, verify, start, switch, note, retire, point, crown)


def require_moved_tags(rollout: Rollout) -> list[str]:
    """Raise Unavailable where the tag `champion` of a registry that was used before names another image.

    Returns the tags of registries that do not answer, with the reason.
    """
    served = rollout.ledger.champions
    tags = image_registry.former(rollout.client, served, rollout.shipped)
    versions = {one.reference: one.version for one in served}
    for one in tags:
        if one.digest is not None:
            names = f"version {version}" if (version := versions.get(f"{one.name}@{one.digest}")) else one.digest[:19]
            raise Unavailable(
                f"{rollout.status}, but {one.tag}, where promote.registry was before, still names {names}: delete that tag there, or "
                f"`docker tag {rollout.shipped.image_id[:19]} {one.tag} && docker push {one.tag}`, then run the same command again"
            )
    return [f"{one.tag} could not be asked, and may name another version ({one.trouble})" for one in tags]


def unchanged_services(rollout: Rollout) -> list[str]:
    """The services of other targets that still run another image, according to this engine and the ledger."""
    running = {service.where: service.image_id for service in docker_target.services(rollout.client)}
    versions = {one.image_id: one.version for one in rollout.ledger.champions}
    before = {where: shipped for where, shipped in rollout.ledger.targets().items() if where != rollout.where}
    lines = [
        f"{where} still serves {f'version {versions[image_id]}' if image_id in versions else f'the image {image_id[:19]}'}"
        for where, image_id in running.items()
        if where in before and image_id not in (None, rollout.shipped.image_id)
    ]
    if before and (last := list(before)[-1]) not in running and before[last].image_id != rollout.shipped.image_id:
        lines.append(f"{last} was not changed, is not on this engine, and serves version {before[last].version} by the ledger")
    return lines


def full_acceptance(client: Any, judged: Params, shipped: Shipped, identity: str) -> None:
    """Judge the image of that id as `accept` does, by the evidence in the paths of `judged`. Raises GateFailed."""
    parity = Path(judged.paths.parity)
    proven = read_json(parity / "passed.json", stage="verify")
    (name,) = [name for name, facts in proven.items() if facts["digest"] == shipped.candidate_digest][:1]
    candidate = Candidate.load(Path(judged.paths.candidates) / name)
    report, _ = image_test.attempt(client, {"image": shipped.image, "image_id": identity}, candidate, judged)
    if not report.verdict:
        raise GateFailed("; ".join(str(check) for check in report.verdict.failures))


def send(registry: Registry, ledger: Ledger) -> None:
    """Send MLflow the entries that it lacks, and the recorded answers of each image. Raises Unavailable."""
    for entry in missing(registry.entries(), ledger.own):
        registry.add(entry, answers.load(ledger.recordings, entry.shipped.candidate_digest) if entry.event == Event.SERVING else [])


def _require_signature(rollout: Rollout) -> None:
    """Check the signature of the image if the params name a key; a rollback does not wait for a registry that does not answer.

    Raises BadInput, GateFailed, Unavailable.
    """
    if (file := rollout.params.promote.verify_key) is None:
        return
    key = signatures.public_key(Path(file))
    try:
        check = signature_registry.check(rollout.shipped.reference, key)
    except Unavailable:
        if rollout.decision.action == "rollback":
            return
        raise
    if not check.passed:
        raise GateFailed(str(check))


def _obtain(rollout: Rollout) -> str:
    """The id of the image that the registry has under the digest; the engine's image if the registry fails during a rollback."""
    if rollout.shipped.reference is None:
        return rollout.shipped.image_id
    try:
        return image_registry.pull(rollout.client, rollout.shipped.reference)
    except Unavailable:
        if rollout.decision.action == "rollback" and image.exists(rollout.client, rollout.shipped.image_id):
            return rollout.shipped.image_id
        raise


def pulled_check(shipped: Shipped, identity: str) -> Check:
    """Whether the image under the digest is the one that was accepted."""
    advice = "the registry or the engine holds another image under this name: push the accepted one again"
    return Check(name="pulled_image", measured=identity, limit=shipped.image_id, passed=identity == shipped.image_id, advice=advice)


def recorded_check(faults: list[str], recording: Recording) -> Check:
    """Whether the recorded requests get the recorded answers; fails if none are recorded."""
    measured = faults[0] if faults else f"{len(recording)} recorded answers again" if recording else "no recorded answers"
    return Check(
        name="recorded_answers",
        measured=measured,
        limit="every recorded answer again",
        passed=bool(recording) and not faults,
        advice="the image does not answer as it did when it was promoted: promote another version",
    )


def _departures(rollout: Rollout, identity: str) -> list[str]:
    """Send the image the recorded requests. Raises Unavailable if the engine no longer has it."""
    params = rollout.params
    if image.find(rollout.client, identity) is None:
        raise Unavailable(
            f"the image {rollout.shipped.image} is not in the engine, and no registry has it: `docker load` it, then run this again"
        )
    with in_sandbox(rollout.client, identity, memory_bytes=params.accept.memory_bytes) as sandbox:
        server = server_at(sandbox.host, sandbox.port, model=params.name)
        try:
            image_test.wait_until_ready(server, sandbox, deadline=time.perf_counter() + params.accept.ready_timeout_s)
            with closing(server.connect()) as client:
                held = client.metadata().get("parameters", {}).get("candidate_digest")
            if held != rollout.shipped.candidate_digest:
                return [f"the server holds the candidate {str(held)[:12]}"]
            return answers.departures(server, rollout.recording)
        except (image_test.NotReadyError, ServerError) as obstacle:
            return [str(obstacle)]
