"""Where the champion runs on a Docker host: two slots for servers behind a proxy that stays, and a switch between them.

The proxy (docker/haproxy.cfg) keeps its clients' connections. A new server starts in the free slot, gets no request until it is ready,
then gets all new ones at once; the old one answers what it was asked, and only then ends. That holds for HTTP, and for gRPC if the
target has a port for it.
"""

from __future__ import annotations

import errno
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddleship.config.sections.promote import Target
from paddleship.containers import image
from paddleship.containers.sandbox import locked_down, with_gpus
from paddleship.errors import BadInput, Unavailable
from paddleship.image import requirements
from paddleship.rollout import proxy_runtime
from paddleship.rollout.proxy_runtime import SLOTS, ProxyRuntime
from paddleship.shipped.computing.files import tree_sha256
from paddleship.shipped.serving.transports import grpc

_PORT, _GRPC_PORT = 8000, grpc.PORT  # of the servers and of the proxy, each in its container
_DRAINED = 0x01 | 0x08  # bits of srv_admin_state: maintenance, drain
_RUNNING, _PASSED = "2", "3"  # srv_op_state, srv_check_result
_POLL_S = 0.1
_FOUND_READY_S = 5  # in which a proxy that was started anew finds a server ready
_STOP_S = 20
_SAMPLE = "/sample"  # the folder in the container
_FILES = ("proxy.Dockerfile", "haproxy.cfg")
_LISTENS = f"import socket; socket.create_connection(('127.0.0.1', {_GRPC_PORT}), 5)"
_TARGET, _SERVES, _SERVES_GRPC = "io.paddleship.target", "io.paddleship.serves", "io.paddleship.serves-grpc"


@dataclass(frozen=True)
class Service:
    """A target whose proxy runs, and the image of the server that gets its requests; None where there is none, or the proxy is silent."""

    where: str
    image_id: str | None


def where(name: str, address: str) -> str:
    """A target as text, for people and for the ledger."""
    return f"{name} at {address}"


def services(client: Any) -> list[Service]:
    """The targets of this engine whose proxy runs."""
    proxies = client.containers.list(filters={"label": [_TARGET, _SERVES], "status": "running"})
    return [_service(client, proxy.labels[_TARGET], proxy.labels[_SERVES]) for proxy in proxies]


def _service(client: Any, name: str, address: str) -> Service:
    host, _, port = address.rpartition(":")
    target = DockerTarget(client, Target(kind="docker", name=name, address=host, port=int(port)), memory_bytes=0)
    try:
        return Service(where(name, address), target.serving())
    except Unavailable:
        return Service(where(name, address), None)


def _is_in_use(address: str, port: int) -> bool:
    """Whether a program of this machine listens there. Other obstacles the engine judges, which may have other rights and networks."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


class DockerTarget:
    """One service on the engine of `client`. Every method may be repeated after a crash at any point."""

    def __init__(self, client: Any, settings: Target, *, memory_bytes: int) -> None:
        self._client, self._settings, self._memory_bytes = client, settings, memory_bytes
        self._network, self._proxy_name = f"paddleship-{settings.name}", f"paddleship-{settings.name}-proxy"
        self._proxy = ProxyRuntime(client, self._proxy_name)

    def start(self, image_id: str, *, before: str | None) -> str:
        """Start a server of this image in a free slot, and return the slot, or that of one which serves already and is ready.

        `before` is the image that served last, if it is known.
        """
        self._ensure_proxy()
        active = self._active(before)
        slot = next(slot for slot in SLOTS if slot != active)
        self._proxy.drain(slot)
        if active and self._server(active).image.id == image_id and self._wait(lambda: self._is_ready(active), _FOUND_READY_S):
            return active
        existing = self._server(slot)
        if existing is not None and (existing.image.id != image_id or existing.status != "running"):
            image.remove_container(existing)
            existing = None
        if existing is None:
            self._create(slot, image_id)
        return slot

    def wait_until_ready(self, slot: str, *, timeout_s: float) -> None:
        """Return when the server in this slot is ready and the proxy reaches it. Raises Unavailable; the one that serves stays."""
        began, server = time.monotonic(), self._server(slot)
        while time.monotonic() < began + timeout_s:
            server.reload()
            if server.status != "running":
                break
            if self._is_ready(slot):
                self._require_grpc(slot)
                return
            time.sleep(_POLL_S)
        waited_s = time.monotonic() - began
        log = " ".join(server.logs(tail=20).decode(errors="replace").split())[-400:] or "no log"
        self._remove_unused(slot)
        raise Unavailable(
            f"the new server was {server.status} and not ready after {waited_s:.1f} s ({log}), and {self._old_one(slot)}: "
            "read its image's log"
        )

    def switch(self, slot: str) -> None:
        """Send all new requests to the server in this slot, at once."""
        self._proxy.switch(slot)
        if self._active() != slot:
            raise Unavailable(f"the proxy {self._proxy_name} did not switch to the server {slot!r}: see `docker logs {self._proxy_name}`")

    def retire(self) -> None:
        """Stop the drained server when it has answered its last requests; its image stays."""
        active = self._active()
        for slot in SLOTS:
            server = self._server(slot)
            if slot != active and server is not None:
                self._wait(lambda slot=slot: self._proxy.sessions(slot) == 0, self._settings.drain_s)  # type: ignore[misc]
                server.stop(timeout=_STOP_S)
                image.remove_container(server)

    def serving(self) -> str | None:
        """The id of the image whose server gets the requests; None without one."""
        active = self._active()
        return str(self._server(active).image.id) if active else None

    def remove(self) -> None:
        """Remove all containers and networks of this target."""
        for name in (*(self._server_name(slot) for slot in SLOTS), self._proxy_name):
            if (container := self._container(name)) is not None:
                image.remove_container(container)
        for network in self._client.networks.list(names=[self._network, f"{self._network}-front"]):
            image.remove_network(network)

    def require_address(self) -> None:
        """Raise BadInput if the proxy runs at another address, Unavailable if it does not exist yet and one of its ports is in use."""
        proxy = self._container(self._proxy_name)
        if proxy is None and self._client.api.base_url.startswith("http+docker://"):  # the engine of this machine
            for port in self._ports.values():
                if _is_in_use(self._settings.address, port):
                    raise self._closed("it is in use", port)
        if proxy is not None and (strange := self._strange(proxy.labels)):
            raise BadInput(
                f"the proxy {self._proxy_name} {strange}: take the old address, another name, or remove it with "
                f"`docker rm -f {self._proxy_name}`, which ends its clients' requests"
            )

    def _strange(self, labels: Mapping[str, str]) -> str | None:
        """How the address of a proxy with these labels differs from that of the params; it may have a port for gRPC more."""
        wanted = self._labels
        if labels[_SERVES] != wanted[_SERVES]:
            return f"stands at {labels[_SERVES]}, and promote.target says {wanted[_SERVES]}"
        if _SERVES_GRPC in wanted and labels.get(_SERVES_GRPC) != wanted[_SERVES_GRPC]:
            at = f"stands at {labels[_SERVES_GRPC]}" if _SERVES_GRPC in labels else "has no port"
            return f"{at} for gRPC, and promote.target says {wanted[_SERVES_GRPC]}"
        return None

    def _closed(self, reason: str, *ports: int) -> Unavailable:
        addresses = " or ".join(f"{self._settings.address}:{port}" for port in ports)
        return Unavailable(f"the port {addresses} of promote.target cannot be opened ({reason}): choose another, or free it")

    @property
    def _ports(self) -> dict[int, int]:
        """The ports of the host by those of the proxy that they lead to."""
        grpc_port = self._settings.grpc_port
        return {_PORT: self._settings.port} | ({_GRPC_PORT: grpc_port} if grpc_port is not None else {})

    @property
    def _labels(self) -> dict[str, str]:
        """Those of the proxy."""
        names = {_PORT: _SERVES, _GRPC_PORT: _SERVES_GRPC}
        addresses = {names[inside]: f"{self._settings.address}:{port}" for inside, port in self._ports.items()}
        return {_TARGET: self._settings.name, **addresses}

    def _ensure_proxy(self) -> None:
        """Start the proxy if it does not run. Raises BadInput if it runs at another address, Unavailable if its address is in use."""
        import docker

        self.require_address()
        proxy = self._container(self._proxy_name)
        if proxy is not None and proxy.status != "running":
            image.remove_container(proxy)
            proxy = None
        if proxy is None:
            inside, front = (
                self._ensure_network(self._network, internal=True),
                self._ensure_network(f"{self._network}-front", internal=False),
            )
            proxy = self._client.containers.create(
                self._proxy_image(),
                name=self._proxy_name,
                network=front.name,
                ports={f"{inside}/tcp": (self._settings.address, port) for inside, port in self._ports.items()},
                labels=self._labels,
                restart_policy={"Name": "unless-stopped"},
                **locked_down(memory_bytes=512 * 2**20),
            )
            try:
                inside.connect(proxy)
                proxy.start()
            except docker.errors.APIError as error:
                image.remove_container(proxy)
                for network in (inside, front):
                    network.reload()
                    if not network.containers:
                        image.remove_network(network)
                raise self._closed(image.reason(error), *self._ports.values()) from None
        if not self._wait(self._proxy.answers, 10):
            raise Unavailable(f"the proxy {self._proxy_name} does not answer: see `docker logs {self._proxy_name}`")

    def _proxy_image(self) -> str:
        """The proxy's image with our configuration, built if the engine lacks it. Raises Unavailable."""
        base = image.require_base(self._client, self._settings.proxy_image, recipe="infra/proxy_image.sh")
        folder = requirements.folder().parent
        digest = tree_sha256({"base": base.id, **{name: (folder / name).read_text(encoding="utf-8") for name in _FILES}})
        name = f"paddleship/proxy:{digest[:12]}"
        if not image.exists(self._client, name):
            with tempfile.TemporaryDirectory() as scratch:
                shutil.copy(folder / _FILES[0], Path(scratch) / "Dockerfile")
                shutil.copy(folder / _FILES[1], scratch)
                image.build(self._client, Path(scratch), base_image=self._settings.proxy_image, labels={}).tag(name)
        return name

    def _ensure_network(self, name: str, *, internal: bool) -> Any:
        networks = [network for network in self._client.networks.list(names=[name]) if network.name == name]
        return networks[0] if networks else self._client.networks.create(name, internal=internal, labels={_TARGET: self._settings.name})

    def _create(self, slot: str, image_id: str) -> None:
        server = self._client.containers.create(
            image_id,
            name=self._server_name(slot),
            network=self._network,
            networking_config={self._network: self._client.api.create_endpoint_config(aliases=[f"model-{slot}"])},
            labels={_TARGET: self._settings.name},
            restart_policy={"Name": "unless-stopped"},
            **self._with_sample(),
            **with_gpus(self._client, image_id),
            **locked_down(memory_bytes=self._memory_bytes),
        )
        server.start()

    def _with_sample(self) -> dict[str, Any]:
        """The options of a container that let its server write a request sample, if the params ask for one."""
        if self._settings.sample is None:
            return {}
        return {"command": ["--sample", _SAMPLE], "volumes": {self._settings.sample: {"bind": _SAMPLE, "mode": "rw"}}}

    def _server_name(self, slot: str) -> str:
        return f"paddleship-{self._settings.name}-{slot}"

    def _server(self, slot: str) -> Any:
        return self._container(self._server_name(slot))

    def _container(self, name: str) -> Any:
        import docker

        try:
            return self._client.containers.get(name)
        except docker.errors.NotFound:
            return None

    def _active(self, before: str | None = None) -> str | None:
        """The slot that gets the requests. A restarted proxy has two: that of the image `before` counts, or the older."""
        states = self._proxy.states()
        servers = {slot: self._server(slot) for slot in SLOTS if not int(states[slot]["srv_admin_state"]) & _DRAINED}
        open_ones = [slot for slot, server in servers.items() if server is not None]
        return min(open_ones, key=lambda slot: (servers[slot].image.id != before, servers[slot].attrs["Created"]), default=None)

    def _old_one(self, new: str) -> str:
        """What the server that gets the requests does now, for a message: it is asked."""
        active = self._active()
        if active is None or active == new:
            return "no other one is there"
        return "the old one still answers" if self._is_ready(active) else "the old one does not answer either"

    def _is_ready(self, slot: str) -> bool:
        """Whether the server in this slot says that it is ready, and the proxy reaches it."""
        import docker

        server = self._server(slot)
        if server is None or server.status != "running":
            return False
        try:
            return self._reached(slot, server) and server.exec_run(["python", "-m", "paddleship.shipped.serving.health"]).exit_code == 0
        except docker.errors.APIError:  # it ended or was paused meanwhile
            return False

    def _reached(self, slot: str, server: Any) -> bool:
        """Whether the proxy has this container's address, and a check found it ready: until the first check, it counts as running."""
        address, state = server.attrs["NetworkSettings"]["Networks"][self._network]["IPAddress"], self._proxy.states()[slot]
        is_ready = (state["srv_addr"], state["srv_op_state"], state["srv_check_result"]) == (address, _RUNNING, _PASSED)
        if not is_ready or self._settings.grpc_port is None:
            return is_ready
        state = self._proxy.states(proxy_runtime.GRPC)[slot]  # which has no check of its own
        return (state["srv_addr"], state["srv_op_state"]) == (address, _RUNNING)

    def _require_grpc(self, slot: str) -> None:
        """Raise Unavailable if the target has a port for gRPC, and the ready server in this slot does not listen for it."""
        if self._settings.grpc_port is None or self._server(slot).exec_run(["python", "-c", _LISTENS]).exit_code == 0:
            return
        old_one = self._old_one(slot)
        self._remove_unused(slot)
        raise Unavailable(
            f"the new server does not serve gRPC, which promote.target has the port {self._settings.grpc_port} for, and {old_one}: take an "
            "image made with package.transports: [http, grpc], or set promote.target.grpc_port: null"
        )

    def _remove_unused(self, slot: str) -> None:
        """Remove the server in this slot, unless it gets the requests."""
        if slot != self._active():
            image.remove_container(self._server(slot))

    def _wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True
