"""The only door to an image registry, by way of the engine: push, pull by digest, and the tag that moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from paddleship.errors import Unavailable
from paddleship.promotion.ledger import Shipped
from tasks import image

MOVING = "champion"


def repository(registry: str, shipped: Shipped) -> str:
    """The name that an image has in a registry, without tag or digest."""
    return f"{registry}/{shipped.image.rpartition(':')[0]}"


def push(client: Any, registry: str, shipped: Shipped) -> str:
    """Push an image, which may be there already; its name by digest. Raises Unavailable."""
    return _push(client, shipped, repository(registry, shipped), shipped.image.rpartition(":")[2])


def pull(client: Any, reference: str) -> str:
    """The id of the image that the registry has under this digest. Raises Unavailable."""
    import docker

    try:
        return str(client.images.pull(reference).id)
    except docker.errors.DockerException as error:
        raise Unavailable(
            f"{reference} cannot be pulled ({image.reason(error)}): see that the registry answers, then run the same command"
        ) from None


def point(client: Any, shipped: Shipped) -> None:
    """Let the moving tag name this image: in the registry where it was pushed to one, else in the engine. Raises Unavailable."""
    if shipped.reference is None:
        client.images.get(shipped.image_id).tag(shipped.image.rpartition(":")[0], MOVING)
        return
    name, _, digest = shipped.reference.partition("@")
    pushed = _push(client, shipped, name, MOVING)
    if pushed != shipped.reference:
        raise Unavailable(
            f"{name}:{MOVING} is {pushed.partition('@')[2][:19]} in the registry, not {digest[:19]}: run the same command again"
        )


def _push(client: Any, shipped: Shipped, name: str, tag: str) -> str:
    import docker

    try:
        with _tagged(client, shipped.image_id, name, tag):
            for event in client.api.push(name, tag=tag, stream=True, decode=True):
                if "error" in event:
                    raise Unavailable(
                        f"{name}:{tag} cannot be pushed ({event['error']}): see that the registry answers, then run the same command"
                    )
                if digest := event.get("aux", {}).get("Digest"):
                    return f"{name}@{digest}"
            raise Unavailable(f"the engine does not say under which digest {name}:{tag} was pushed: push it by hand and look")
    except docker.errors.DockerException as error:
        raise Unavailable(
            f"{name}:{tag} cannot be pushed ({image.reason(error)}): log in with `docker login`, then run the same command"
        ) from None


@contextmanager
def _tagged(client: Any, image_id: str, name: str, tag: str) -> Iterator[None]:
    """Give an image a tag in the engine; if the block fails, the tag is as before, unless it is the image's only one by now."""
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
