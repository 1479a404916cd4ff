"""Run a container with restricted rights, reach its ports, and remove it and what killed runs left."""

from __future__ import annotations

import signal
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from paddleship.containers import image, ownership
from paddleship.errors import Unavailable
from paddleship.lineage.release import CANDIDATE_LABEL
from paddleship.shipped.computing.runtimes import registry

_TERMINATED = 128 + signal.SIGTERM  # exit code of a container that was asked to stop


@dataclass
class Sandbox:
    """A container with restricted rights, and the address of its ports: `published` has the port at which each is reached."""

    container: Any
    host: str
    published: Mapping[int, int]
    stopped: bool = False

    @property
    def port(self) -> int:
        """That of HTTP, or the only one."""
        return next(iter(self.published.values()))

    @property
    def state(self) -> dict[str, Any]:
        self.container.reload()
        return dict(self.container.attrs["State"])

    def require_not_stopped(self) -> None:
        """Raise Unavailable if somebody else asked the container to stop, as an engine does that is restarted."""
        if self.stopped:
            return
        state = self.state
        if not state["Running"] and state["ExitCode"] == _TERMINATED:
            raise Unavailable("the container was stopped from outside: see that the Docker engine runs, then run the same command again")

    def logs(self) -> str:
        return str(self.container.logs(tail=20).decode(errors="replace"))

    def peak_memory_bytes(self) -> int:
        """The highest memory use in the engine's record; without a record (cgroup v2), the current use."""
        usage = self.container.stats(stream=False).get("memory_stats", {})
        return int(usage.get("max_usage") or usage.get("usage") or 0)

    def memory_bytes(self) -> int:
        """The current memory use, without files, which count for the container that read them first."""
        details = self.container.stats(stream=False).get("memory_stats", {}).get("stats", {})
        return int(details.get("total_rss", details.get("anon", 0)))

    def stop(self, *, timeout_s: int) -> tuple[float, int]:
        """Ask the server to stop. Returns the seconds until it ended, and its exit code."""
        self.require_not_stopped()
        self.stopped = True
        start = time.perf_counter()
        self.container.stop(timeout=timeout_s)
        return time.perf_counter() - start, int(self.state["ExitCode"])


@contextmanager
def in_sandbox(
    client: Any, image_id: str, *, memory_bytes: int, ports: Sequence[int] = (8000,), options: Sequence[str] = ()
) -> Iterator[Sandbox]:
    """Run the image with access to its ports only: read-only root, no capabilities, no new privileges, limits, no outgoing network.

    `options` are those of its server, beside the ones in the image. If the engine is on this Linux host, the network is internal and the
    container has its own address; otherwise the ports are published on 127.0.0.1. Container and network are removed afterwards, also on
    SIGTERM. Leftovers of a killed run are removed first. Raises Unavailable if somebody else stopped the container, because its answers
    then say nothing about the image.
    """
    _remove_leftovers(client)
    with _ended_by_sigterm():
        yield from _sandbox(client, image_id, memory_bytes=memory_bytes, ports=ports, options=options)


def _sandbox(client: Any, image_id: str, *, memory_bytes: int, ports: Sequence[int], options: Sequence[str]) -> Iterator[Sandbox]:
    _require_of_this_machine(client)
    local = _shares_our_network(client)
    network = client.networks.create(f"paddleship-accept-{uuid.uuid4().hex[:12]}", internal=local, labels=ownership.labels())
    try:
        container = client.containers.create(
            image_id,
            command=[*options] or None,
            name=network.name,
            network=network.name,
            ports=None if local else {f"{port}/tcp": ("127.0.0.1", None) for port in ports},
            labels=ownership.labels(),
            **with_gpus(client, image_id),
            **locked_down(memory_bytes=memory_bytes),
        )
        container.start()
        container.reload()
        settings = container.attrs["NetworkSettings"]
        if local:
            made = Sandbox(container, settings["Networks"][network.name]["IPAddress"], {port: port for port in ports})
        else:
            published = {port: int(settings["Ports"][f"{port}/tcp"][0]["HostPort"]) for port in ports}
            made = Sandbox(container, "127.0.0.1", published)
        try:
            yield made
        finally:
            made.require_not_stopped()
    finally:
        for container in client.containers.list(all=True, filters={"name": network.name}, ignore_removed=True):
            image.remove_container(container)  # found by name, because an interrupt may come before the engine's answer is read
        image.remove_network(network)


def with_gpus(client: Any, image_id: str) -> dict[str, Any]:
    """The options of a container of this image: all GPUs of the host if its candidate computes on a GPU, otherwise none."""
    import docker

    kind = registry.kinds().get(client.images.get(image_id).labels.get(CANDIDATE_LABEL, ""))
    return {"device_requests": [docker.types.DeviceRequest(count=-1, capabilities=[["gpu"]])]} if kind and kind.gpu else {}


def locked_down(*, memory_bytes: int) -> dict[str, Any]:
    """The restrictions of our containers: no writing, no capabilities, no new privileges, and limits on memory and processes."""
    return {
        "read_only": True,
        "tmpfs": {"/tmp": "size=64m,mode=1777"},  # noqa: S108 a folder of the container
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "mem_limit": memory_bytes,
        "memswap_limit": memory_bytes,
        "pids_limit": 256,
        "init": True,
    }


def _require_of_this_machine(client: Any) -> None:
    """Raise Unavailable if the containers of the engine cannot be reached from here."""
    if urlsplit(str(client.api.base_url)).hostname not in ("localhost", "localnpipe", "127.0.0.1", "::1"):
        raise Unavailable(
            f"the Docker engine {image.host_of(client)} is on another machine, and its containers cannot be reached from here: "
            "run there, or give `package` and `accept` a worker there (--on)"
        )


def _shares_our_network(client: Any) -> bool:
    """Whether a container's own address can be reached: not if the engine is remote, rootless or in a virtual machine."""
    facts = client.info()
    inside = "Docker Desktop" in facts.get("OperatingSystem", "") or "name=rootless" in (facts.get("SecurityOptions") or [])
    return sys.platform == "linux" and str(client.api.base_url) == "http+docker://localhost" and not inside


def _remove_leftovers(client: Any) -> None:
    """Remove containers and networks of killed acceptances; those of living processes stay, also in other pid namespaces."""
    for container in client.containers.list(all=True, filters={"label": ownership.OWNER}, ignore_removed=True):
        if ownership.is_left_over(container.labels):
            image.remove_container(container)
    for network in client.networks.list(filters={"label": ownership.OWNER}):
        if ownership.is_left_over(network.attrs["Labels"]):
            image.remove_network(network)


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that every `finally` runs and nothing stays in the engine."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)
