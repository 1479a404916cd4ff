"""Find the Docker engine, and build, inspect, name and remove images."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from paddleship.containers import ownership
from paddleship.custody.differing import show_both
from paddleship.errors import BadInput, PaddleshipError, Unavailable
from paddleship.image import configuration
from paddleship.image.configuration import OF_THE_BUILD
from paddleship.lineage.release import CREATED
from paddleship.system import locks

_AGAIN = "build it again with `paddleship run --again package`"
OUR_SOCKET = "unix:///run/paddleship/docker.sock"
_ENGINE_TIMEOUT_S = 120
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@-]*")
_NO_ENGINE = "run `make engine`, or start one and set DOCKER_HOST; a run ends before it with UNTIL=benchmark (make) or --until benchmark"


def connect() -> Any:
    """A client of the first engine that answers. Raises Unavailable.

    DOCKER_HOST, with its TLS settings, is the only choice if it is set; otherwise the default socket, then the one of infra/engine.sh.
    """
    from docker.utils import kwargs_from_env

    import docker

    chosen = os.environ.get("DOCKER_HOST")
    sockets = [host for host in ("unix:///var/run/docker.sock", OUR_SOCKET) if Path(host.removeprefix("unix://")).exists()]
    for host in [chosen] if chosen else sockets:
        try:
            settings = kwargs_from_env() if chosen else {"base_url": host}
            client = docker.DockerClient(**settings, timeout=_ENGINE_TIMEOUT_S)
        except (docker.errors.DockerException, OSError, ValueError):
            continue
        try:
            client.ping()
            return client
        except (docker.errors.DockerException, OSError):
            client.close()
    where = f" (DOCKER_HOST is {chosen!r})" if chosen else ""
    raise Unavailable(f"no Docker engine is reachable{where}: {_NO_ENGINE}")


@contextmanager
def engine() -> Iterator[Any]:
    """A client of the first engine that answers, for a block. Raises Unavailable, also if the engine refuses or stops answering in it."""
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    import docker

    with closing(connect()) as client:
        try:
            yield client
        except docker.errors.APIError as error:
            message = reason(error)
            raise _disk_full(message) or Unavailable(f"the Docker engine refused a request ({message}): see the engine's log") from error
        except (RequestException, HTTPError) as error:
            raise Unavailable(
                f"the Docker engine stopped answering ({reason(error)}): start it, then run the same command again"
            ) from error


def reason(error: Exception | str) -> str:
    """The engine's message about an error, on one line and truncated."""
    return " ".join(str(getattr(error, "explanation", None) or error).split())[:160]


def _disk_full(message: str) -> Unavailable | None:
    """The error to raise if the engine reports that its disk is full, which only the text of its message shows."""
    if os.strerror(errno.ENOSPC).lower() not in message.lower():
        return None
    return Unavailable(
        f"the disk of the Docker engine is full ({message}): free space there, for example with `docker system prune`, "
        "then run the same command again"
    )


def host_of(client: Any) -> str:
    """The engine's address, in the form of DOCKER_HOST."""
    socket = getattr(client.api.adapters.get("http+docker://"), "socket_path", None)
    return os.environ.get("DOCKER_HOST") or f"unix://{socket}"


def is_gone(receipt: Path) -> bool:
    """Whether the engine no longer has the image of the receipt, which DVC cannot see. Raises Unavailable."""
    if not receipt.exists():
        return False
    with engine() as client:
        return not exists(client, json.loads(receipt.read_text(encoding="utf-8"))["image_id"])


def restore_name(receipt: Path) -> str | None:
    """Give the name in the receipt of an accepted image back to that image; a line that says so if it had to. Raises Unavailable.

    Does nothing without a receipt, or in an engine that does not have the image (`is_gone`).
    """
    if not receipt.exists():
        return None
    facts = json.loads(receipt.read_text(encoding="utf-8"))
    with engine() as client, locks.wait_for(locks.of_machine("accepting")):
        stored = find(client, facts["image"])
        if (stored is not None and stored.id == facts["image_id"]) or not exists(client, facts["image_id"]):
            return None
        name(client, facts["image_id"], facts["image"])
    named = f"named another image, {stored.id[:19]}" if stored else "named no image"
    return f"{facts['image']} {named}: it names the accepted image {facts['image_id'][:19]} again"


def exists(client: Any, image: str) -> bool:
    return find(client, image) is not None


def find(client: Any, image: str) -> Any:
    """The image of that name or id; None if the engine has none. Never pulls."""
    import docker

    try:
        return client.images.get(image)
    except docker.errors.ImageNotFound:
        return None


def require_base(client: Any, image: str, *, recipe: str = "infra/base_image.sh") -> Any:
    """The base image, pulled if a registry has it; `recipe` is the script that makes it if none does. Raises Unavailable."""
    import docker

    if (base := find(client, image)) is not None:
        return base
    print(f"pulling {image}")
    try:
        return client.images.pull(image)
    except docker.errors.DockerException as error:
        raise Unavailable(
            f"base image {image!r} is neither in the engine nor in a registry that answers ({reason(error)}): "
            f"run `{recipe} {image}`, or `docker load` it"
        ) from None


def python_version(client: Any, image: str) -> str:
    """The version of the Python in an image, from a run of it. Raises BadInput if it does not run."""
    import docker

    ask = ["python", "-c", "import platform; print(platform.python_version())"]
    container = client.containers.create(image, entrypoint=ask, network_disabled=True, labels=ownership.labels())
    try:
        container.start()
        failed = container.wait()["StatusCode"]
        answer = container.logs(stderr=bool(failed)).decode(errors="replace").strip()
    except docker.errors.APIError as error:
        failed, answer = 1, reason(error)
    finally:
        remove_container(container)
    if failed:
        raise BadInput(f"the Python of the base image does not run ({reason(answer)}): set package.base_image to an image with Python")
    return str(answer)


def read_file(client: Any, image: str, path: str) -> str:
    """The text of a file in an image; empty without such a file or image."""
    import docker

    if not exists(client, image):
        return ""
    container = client.containers.create(image, entrypoint=["-"], network_disabled=True, labels=ownership.labels())
    try:
        content = b"".join(container.get_archive(path)[0])
    except docker.errors.NotFound:
        return ""
    finally:
        remove_container(container)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        file = archive.extractfile(archive.next() or path)
        return file.read().decode(errors="replace") if file else ""


def digest(image: Any) -> str | None:
    """The digest under which a registry has an image; None for one that no registry gave or got."""
    return next((str(one).partition("@")[2] for one in image.attrs.get("RepoDigests") or []), None)


def build(client: Any, context: Path, *, base_image: str, labels: Mapping[str, str]) -> Any:
    """Build the Dockerfile in `context`; the image has no tag. Raises PaddleshipError, Unavailable.

    With the label of the time at which it was created, that is the time in the image, whose id then depends on its content alone.
    """
    if CREATED not in labels:
        return _build(client, context, base_image=base_image, labels=labels)
    built = _build(client, context, base_image=base_image, labels={}, cached=False)  # so that no other build uses what is removed below
    made = _described(client, built, configuration.write(built.attrs, labels, created=datetime.fromisoformat(labels[CREATED])))
    return _build(client, context, base_image=base_image, labels=labels) if made is None else made


def _described(client: Any, built: Any, content: bytes) -> Any | None:
    """The image with the layers of `built` and this configuration; `built` is removed, with what only it was built on.

    None if the engine does not take a configuration without its layers, as with containerd's image store: then `built` stays.
    """
    import docker

    identity = f"sha256:{configuration.digest(content)}"
    try:
        client.images.load(configuration.archive(content, len(built.attrs["RootFS"]["Layers"])))
        made = client.images.get(identity)
    except (docker.errors.APIError, docker.errors.ImageLoadError):
        return None
    if not built.tags and built.id != identity:
        client.images.remove(built.id)
    return made


def _build(client: Any, context: Path, *, base_image: str, labels: Mapping[str, str], cached: bool = True) -> Any:
    last = built = ""
    stream = client.api.build(
        path=str(context),
        rm=True,
        pull=False,
        decode=True,
        nocache=not cached,
        buildargs={"BASE_IMAGE": base_image},
        labels=dict(labels),
    )
    for event in stream:
        if "error" in event:
            message = reason(event["error"])
            raise _disk_full(message) or PaddleshipError(
                f"the image does not build ({message}; after {last!r}): see docker/serve.Dockerfile"
            )
        built = event.get("aux", {}).get("ID", built)
        if line := event.get("stream", "").strip():
            last = line
    if not built:
        raise Unavailable(f"the Docker engine ended the build without a result (after {last!r}): start it, then run the same command again")
    return client.images.get(built)


def _configuration(built: Any) -> dict[str, Any]:
    """User, environment, entry point, labels and everything else that an image sets for its containers; unset values are left out."""
    return {key: value for key, value in built.attrs["Config"].items() if value and key not in OF_THE_BUILD}


def require_exists(client: Any, receipt: Mapping[str, Any]) -> None:
    """Raise BadInput unless the engine has the image of the receipt of `package`."""
    if not exists(client, receipt["image_id"]):
        raise BadInput(f"image {receipt['image']!r} is no longer in the engine: {_AGAIN}")


def require_built(client: Any, receipt: Mapping[str, Any], *, base: Any, expected: Any) -> None:
    """Raise BadInput unless the image of the receipt has the layers and the configuration of `expected`, which is built on `base`."""
    if base.id != receipt["base_image_id"]:
        raise BadInput(f"the base image {receipt['base_image']!r} was replaced since the image was built on it: {_AGAIN}")
    built = find(client, receipt["image_id"])
    facts: dict[str, tuple[Any, Any]] = {
        "image id": (built.id, receipt["image_id"]),
        "size": (int(built.attrs["Size"]), receipt["size_bytes"]),
        "recorded layers": (receipt["layers"], expected.attrs["RootFS"]["Layers"]),
        "layers": (built.attrs["RootFS"]["Layers"], expected.attrs["RootFS"]["Layers"]),
    }
    has, wanted = _configuration(built), _configuration(expected)
    facts |= {f"configuration {key}": (has.get(key), wanted.get(key)) for key in sorted(has.keys() | wanted.keys())}
    for fact, (has, wanted) in facts.items():
        if has != wanted:
            has_text, wanted_text = show_both(has, wanted)
            raise BadInput(f"image {built.id[:19]} has the {fact} {has_text}, but package would build {wanted_text}: {_AGAIN}")


def name(client: Any, identity: str, name: str) -> None:
    """Tag an image with its name. Raises Unavailable if another process took the name meanwhile."""
    client.images.get(identity).tag(name)
    if (stored := find(client, name)) is None or stored.id != identity:
        raise Unavailable(f"{name} does not name the accepted image {identity[:19]}: another run took the name; run accept again")


def untag(client: Any, identity: str, *tags: str) -> None:
    """Remove those of the tags that name this image, and the image with its last tag; an image in use is kept and reported."""
    import docker

    for tag in tags:
        if (stored := find(client, tag)) is not None and stored.id == identity:
            try:
                client.images.remove(tag, force=True)
            except docker.errors.APIError as error:
                print(f"the tag {tag} could not be removed ({reason(error)}): remove it with `docker rmi {tag}`")


def labelled(client: Any, label: str) -> list[Any]:
    """The images with a label."""
    return list(client.images.list(filters={"label": label}))


def remove(client: Any, stored: Any) -> bool:
    """Remove an image with all its names; False if a container or another image needs it."""
    import docker

    try:
        for tag in stored.tags or [stored.id]:
            client.images.remove(tag)
    except docker.errors.APIError:
        return False
    return True


def remove_container(container: Any) -> None:
    """Remove a container that may run, with its volumes, and return when it is gone, also if another process is removing it.

    Raises Unavailable if that other removal fails.
    """
    import docker

    try:
        container.remove(force=True, v=True)
    except docker.errors.NotFound:
        pass
    except docker.errors.APIError as error:
        if error.status_code != HTTPStatus.CONFLICT:  # the answer while another removal is in progress
            raise
        with suppress(docker.errors.NotFound):
            failed = container.wait(condition="removed").get("Error")
            if failed:
                message = reason(failed["Message"])
                raise Unavailable(f"the Docker engine did not remove {container.name} ({message}): see the engine's log") from None


def remove_network(network: Any) -> None:
    """Remove a network, also if another process removes it meanwhile."""
    import docker

    with suppress(docker.errors.NotFound):
        network.remove()


def labels_of(client: Any, name: str) -> tuple[str, dict[str, str]]:
    """The kind and name of `name` ("image …" or "container …"), and its image's labels. Raises BadInput."""
    what, image = _named(client, name)
    return what, dict(image.labels)


def id_of(client: Any, name: str) -> str:
    """The id of the image of that name, or of a container of that name. Raises BadInput."""
    return str(_named(client, name)[1].id)


def _named(client: Any, name: str) -> tuple[str, Any]:
    import docker

    if not _NAME.fullmatch(name):
        raise BadInput(f"{name!r} is no name or id of a container or image: see `docker ps -a` and `docker images`")
    try:
        container = client.containers.get(name)
        image = container.image
        return f"container {container.name} of image {(image.tags or [image.id])[0]}", image
    except docker.errors.NotFound:
        pass
    if (image := find(client, name)) is None:
        raise BadInput(f"{name!r} is neither a container nor an image of the engine: see `docker ps -a` and `docker images`")
    return f"image {name if name in image.tags else (image.tags or [image.id])[0]}", image
