"""Apply a promotion or rollback in steps. Each step may run again, so a command that was killed is repeated as it is.

The old champion serves until `switch`. The ledger's entry comes right after it; everything later only brings the rest in line. A rollback
gets as far as that with neither MLflow nor the registry.
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
from paddleship.errors import GateFailed, Unavailable
from paddleship.promotion import answers
from paddleship.promotion.answers import Recording
from paddleship.promotion.ledger import Entry, Event, Ledger, Shipped, missing
from paddleship.reports.verdict import Check
from paddleship.rollout import docker_target, image_registry
from paddleship.rollout.docker_target import DockerTarget
from paddleship.rollout.kubernetes_target import KubernetesTarget
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.files import read_json
from paddleship.tracking.champion import Registry


@dataclass
class Place:
    """What the steps work on. `accept` judges an image in full by its id; None where a short look at recorded answers must do.

    `shipped` and `slot` are what the steps before found out.
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
        """The manifest that somebody else has to apply before the version serves."""
        settings = self.params.promote.target
        return settings.manifest if settings is not None and settings.kind == "kubernetes" and settings.context is None else None

    @property
    def where(self) -> str | None:
        """The service and its address or namespace, in words; None without a target."""
        settings = self.params.promote.target
        if settings is None:
            return None
        if settings.kind == "docker":
            return docker_target.where(settings.name, f"{settings.address}:{settings.port}")
        return f"{settings.name} in {settings.namespace}"

    @property
    def pushed(self) -> bool:
        """Whether the image is known by its digest in the registry that the params name, if they name one."""
        registry = self.params.promote.registry
        return registry is None or image_registry.holds(registry, self.shipped)

    @property
    def may_push_later(self) -> bool:
        """Whether the version can serve before the registry has its image: a rollback waits for none, unless a cluster pulls from it."""
        settings = self.params.promote.target
        pulls = settings is not None and settings.kind == "kubernetes" and self.shipped.reference is None
        return self.decision.action == "rollback" and not pulls

    @property
    def standing(self) -> str:
        """What is true of the version once the ledger names it."""
        return f"version {self.shipped.version} {'serves' if self.where else 'is champion in the ledger'}"


def target_of(params: Params, client: Any) -> DockerTarget | None:
    """The Docker host that the params name as the target."""
    settings = params.promote.target
    if settings is None or settings.kind != "docker":
        return None
    return DockerTarget(client, settings, memory_bytes=params.accept.memory_bytes)


def push(place: Place) -> None:
    """Send the image to the registry of the params, unless it is known there, and know it by its digest from now on.

    Raises Unavailable, but not for a rollback that can do without the registry: `point` then says so, after the version serves.
    """
    registry = place.params.promote.registry
    if registry is None or place.pushed:
        return
    try:
        reference = image_registry.push(place.client, registry, place.shipped)
    except Unavailable:
        if not place.may_push_later:
            raise
        return
    place.shipped = place.shipped.model_copy(update={"reference": reference})


def verify(place: Place) -> None:
    """Pull the image back by its digest and see that it answers as it did. Raises GateFailed, Unavailable."""
    identity = _obtain(place)
    if not (check := pulled_check(place.shipped, identity)).passed:
        raise GateFailed(str(check))
    if place.accept is not None:
        place.accept(identity)
    else:
        check = recorded_check(_departures(place, identity), place.recording)
        if not check.passed:
            raise GateFailed(str(check))


def start(place: Place) -> None:
    """Start the new server beside the old one, and wait until it is ready."""
    if (target := place.target) is not None:
        before = place.ledger.serving()
        place.slot = target.start(place.shipped.image_id, before=before.shipped.image_id if before else None)
        target.wait_until_ready(place.slot, timeout_s=place.params.accept.ready_timeout_s)


def switch(place: Place) -> None:
    """Send the requests to the new server: at once on a Docker host, one server after another in a cluster."""
    if (target := place.target) is not None:
        target.switch(place.slot)
    settings, accept = place.params.promote.target, place.params.accept
    if settings is not None and settings.kind == "kubernetes":
        cluster = KubernetesTarget(settings, memory_bytes=accept.memory_bytes, ready_timeout_s=accept.ready_timeout_s)
        before = place.ledger.serving()
        cluster.roll_out(place.shipped, before=before.shipped if before else None)


def note(place: Place) -> None:
    """Add to the ledger what serves now, and where."""
    last = place.ledger.serving()
    if last is None or (last.shipped, last.target) != (place.shipped, place.where) or last.at < place.decision.at:
        why = f"{place.decision.why}; {place.unapplied} was written, and not applied" if place.unapplied else place.decision.why
        place.ledger.append(place.decision.followed_by(Event.SERVING, shipped=place.shipped, why=why, target=place.where))


def point(place: Place) -> None:
    """Move the tag `champion` of the image. Raises Unavailable."""
    if not place.pushed:
        registry = place.params.promote.registry
        raise Unavailable(f"{place.standing}, but {registry} did not take its image: when it does, run the same command again")
    image_registry.point(place.client, place.shipped)


def crown(place: Place) -> None:
    """Move MLflow's alias, and give it what the ledger has and it has not. Raises Unavailable."""
    if place.registry is None:
        raise Unavailable(f"{place.standing}, but MLflow did not answer: when it does, run the same command again")
    place.registry.crown(place.shipped)
    if place.ledger.unfinished() is not None:
        place.ledger.append(place.decision.followed_by(Event.SETTLED, shipped=place.shipped))
    send(place.registry, place.ledger)


def retire(place: Place) -> None:
    """End the old server."""
    if (target := place.target) is not None:
        target.retire()


STEPS = (push, verify, start, switch, note, retire, point, crown)


def require_moved_tags(place: Place) -> list[str]:
    """Raise Unavailable where the tag `champion` of a registry that was used before names another image.

    Returns the tags of registries that do not answer, with the reason.
    """
    served = place.ledger.champions
    found = image_registry.former(place.client, served, place.shipped)
    versions = {one.reference: one.version for one in served}
    for one in found:
        if one.digest is not None:
            names = f"version {version}" if (version := versions.get(f"{one.name}@{one.digest}")) else one.digest[:19]
            raise Unavailable(
                f"{place.standing}, but {one.tag}, where promote.registry was before, still names {names}: delete that tag there, or "
                f"`docker tag {place.shipped.image_id[:19]} {one.tag} && docker push {one.tag}`, then run the same command again"
            )
    return [f"{one.tag} could not be asked, and may name another version ({one.trouble})" for one in found]


def unchanged_services(place: Place) -> list[str]:
    """The services of other targets that go on with another image, as far as this engine and the ledger know."""
    running = {service.where: service.image_id for service in docker_target.services(place.client)}
    versions = {one.image_id: one.version for one in place.ledger.champions}
    before = {where: shipped for where, shipped in place.ledger.targets().items() if where != place.where}
    lines = [
        f"{where} still serves {f'version {versions[image_id]}' if image_id in versions else f'the image {image_id[:19]}'}"
        for where, image_id in running.items()
        if where in before and image_id not in (None, place.shipped.image_id)
    ]
    if before and (last := list(before)[-1]) not in running and before[last].image_id != place.shipped.image_id:
        lines.append(f"{last} was not changed, is not on this engine, and serves version {before[last].version} by the ledger")
    return lines


def full_acceptance(client: Any, judged: Params, shipped: Shipped, identity: str) -> None:
    """Judge the image of that id as `accept` does, by the evidence that the paths of `judged` lead to. Raises GateFailed."""
    parity = Path(judged.paths.parity)
    proven = read_json(parity / "passed.json", stage="verify")
    (name,) = [name for name, facts in proven.items() if facts["digest"] == shipped.candidate_digest][:1]
    candidate = Candidate.load(Path(judged.paths.candidates) / name)
    report, _ = image_test.attempt(client, {"image": shipped.image, "image_id": identity}, candidate, judged)
    if not report.verdict:
        raise GateFailed("; ".join(str(check) for check in report.verdict.failures))


def send(registry: Registry, ledger: Ledger) -> None:
    """Give MLflow the entries that it has not, and the answers that each image is known by. Raises Unavailable."""
    for entry in missing(registry.entries(), ledger.own):
        registry.note(entry, answers.kept(ledger.recordings, entry.shipped.candidate_digest) if entry.event == Event.SERVING else [])


def _obtain(place: Place) -> str:
    """The id of the image that the registry has under the digest; of the engine's own where a rollback cannot wait for the registry."""
    if place.shipped.reference is None:
        return place.shipped.image_id
    try:
        return image_registry.pull(place.client, place.shipped.reference)
    except Unavailable:
        if place.decision.action == "rollback" and image.exists(place.client, place.shipped.image_id):
            return place.shipped.image_id
        raise


def pulled_check(shipped: Shipped, identity: str) -> Check:
    """Whether the image under the digest is the one that was accepted."""
    advice = "the registry or the engine holds another image under this name: push the accepted one again"
    return Check(name="pulled_image", measured=identity, limit=shipped.image_id, passed=identity == shipped.image_id, advice=advice)


def recorded_check(faults: list[str], recording: Recording) -> Check:
    """Whether the recorded requests get the recorded answers; none to ask is a refusal."""
    said = faults[0] if faults else f"{len(recording)} recorded answers again" if recording else "no recorded answers"
    return Check(
        name="recorded_answers",
        measured=said,
        limit="every recorded answer again",
        passed=bool(recording) and not faults,
        advice="the image does not answer as it did when it was promoted: promote another version",
    )


def _departures(place: Place, identity: str) -> list[str]:
    """Ask the image the recorded requests. Raises Unavailable where the engine has it no more."""
    params = place.params
    if image.find(place.client, identity) is None:
        raise Unavailable(
            f"the image {place.shipped.image} is not in the engine, and no registry has it: `docker load` it, then run this again"
        )
    with image.sandbox(place.client, identity, memory_bytes=params.accept.memory_bytes) as sandbox:
        server = server_at(sandbox.host, sandbox.port, model=params.name)
        try:
            image_test.wait_until_ready(server, sandbox, deadline=time.perf_counter() + params.accept.ready_timeout_s)
            with closing(server.connect()) as client:
                held = client.metadata().get("parameters", {}).get("candidate_digest")
            if held != place.shipped.candidate_digest:
                return [f"the server holds the candidate {str(held)[:12]}"]
            return answers.departures(server, place.recording)
        except (image_test.NotReadyError, ServerError) as obstacle:
            return [str(obstacle)]
