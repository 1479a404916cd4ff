"""The only door to an image registry, by way of the engine: push, pull by digest, and the tag that moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from paddleship.containers import image
from paddleship.errors import Unavailable
from paddleship.promotion.ledger import Shipped

MOVING = "champion"


def repository(registry: str, shipped: Shipped) -> str:
    """The name that an image has in a registry, without tag or digest."""
    return f"{registry}/{shipped.image.rpartition(':')[0]}"


def holds(registry: str, shipped: Shipped) -> bool:
    """Whether an image is known by its digest in this registry."""
    return shipped.reference is not None and _name(shipped.reference) == repository(registry, shipped)


def push(client: Any, registry: str, shipped: Shipped) -> str:
    """Push an image, unless it is there already. Returns its name by digest. Raises Unavailable."""
    _obtain(client, shipped)
    return _push(client, shipped, repository(registry, shipped), shipped.image.rpartition(":")[2])


def pull(client: Any, reference: str) -> str:
    """The id of the image that the registry has under this digest. Raises Unavailable."""
    import docker

    try:
        return str(client.images.pull(reference).id)
    except docker.errors.DockerException as error:
        raise Unavailable(f"{reference} cannot be pulled ({image.reason(error)}): {_advice(reference)}") from None


def point(client: Any, shipped: Shipped) -> None:
    """Let the moving tag name this image in the engine, and in the registry where it was pushed to one. Raises Unavailable."""
    client.images.get(shipped.image_id).tag(shipped.image.rpartition(":")[0], MOVING)
    if shipped.reference is None:
        return
    name, _, digest = shipped.reference.partition("@")
    pushed = _push(client, shipped, name, MOVING)
    if pushed != shipped.reference:
        raise Unavailable(
            f"{name}:{MOVING} is {pushed.partition('@')[2][:19]} in the registry, not {digest[:19]}: run the same command again"
        )


@dataclass(frozen=True)
class Former:
    """The moving tag of a repository that an earlier champion was pushed to. `trouble` is why nothing is known of it.

    `digest` is the image that it names; None without such a tag, or if nothing is known.
    """

    name: str
    digest: str | None = None
    trouble: str | None = None

    @property
    def tag(self) -> str:
        return f"{self.name}:{MOVING}"


def former(client: Any, served: Iterable[Shipped], shipped: Shipped) -> list[Former]:
    """The moving tags that do not name `shipped`, or may not, in other repositories than its own to which `served` were pushed."""
    served = list(served)
    pushed = [one.reference for one in (*served, shipped) if one.reference is not None and one.image_id == shipped.image_id]
    right = {reference.partition("@")[2] for reference in pushed}
    own = _name(shipped.reference) if shipped.reference else None
    names = dict.fromkeys(_name(one.reference) for one in served if one.reference)
    tags = [_moving_tag(client, name) for name in names if name != own]
    return [one for one in tags if one.trouble or one.digest not in (None, *right)]


def _moving_tag(client: Any, name: str) -> Former:
    import docker

    try:
        return Former(name, digest=str(client.images.get_registry_data(f"{name}:{MOVING}").id))
    except docker.errors.NotFound:
        return Former(name)
    except docker.errors.DockerException as error:
        return Former(name, trouble=image.reason(error))


def _name(reference: str) -> str:
    return reference.partition("@")[0]


def _advice(name: str) -> str:
    """What to do when a push or pull failed; the engine reports the reason only as text."""
    host = name.partition("/")[0]
    return f"see that {host} answers, log in with `docker login {host}` if it wants a user, then run the same command"


def _obtain(client: Any, shipped: Shipped) -> None:
    """Make sure that the engine has an image; pull it from the registry that it was pushed to before if necessary. Raises Unavailable."""
    if not image.exists(client, shipped.image_id) and (shipped.reference is None or pull(client, shipped.reference) != shipped.image_id):
        raise Unavailable(f"the image {shipped.image} is not in the engine, and no registry has it: `docker load` it, then run this again")


def _push(client: Any, shipped: Shipped, name: str, tag: str) -> str:
    import docker

    try:
        with _tagged(client, shipped.image_id, name, tag):
            for event in client.api.push(name, tag=tag, stream=True, decode=True):
                if "error" in event:
                    raise Unavailable(f"{name}:{tag} cannot be pushed ({image.reason(event['error'])}): {_advice(name)}")
                if digest := event.get("aux", {}).get("Digest"):
                    return f"{name}@{digest}"
            raise Unavailable(f"the engine does not say under which digest {name}:{tag} was pushed: push it by hand and look")
    except docker.errors.DockerException as error:
        raise Unavailable(f"{name}:{tag} cannot be pushed ({image.reason(error)}): {_advice(name)}") from None


@contextmanager
def _tagged(client: Any, image_id: str, name: str, tag: str) -> Iterator[None]:
    """Tag an image in the engine; if the block fails, the tag is restored, unless it is the image's only one by then."""
    import docker

    before = image.find(client, f"{name}:{tag}")
    tagged = client.images.get(image_id)
    tagged.tag(name, tag)
    try:
        yield
    except BaseException:
        with suppress(docker.errors.DockerException):
            if before is not None:
                before.tag(name, tag)
            elif tagged.tags:
                client.images.remove(f"{name}:{tag}")
        raise
