"""HAProxy's runtime API: which server of each backend gets the requests, and how many it is answering."""

from __future__ import annotations

import time
from typing import Any

from paddleship.containers import image
from paddleship.errors import Unavailable

SLOTS = ("a", "b")
HTTP, GRPC = "model", "model-grpc"  # the backends, each with a server for each slot
_RETRY_S, _SHOW_TIMES = 0.1, 20
_BASH = 'exec 3<>/dev/tcp/127.0.0.1/9999 && printf "%s\\n" "$1" >&3 && cat <&3'


class ProxyRuntime:
    """The proxy in the container of this name, asked from inside the container, because nobody else reaches its runtime API."""

    def __init__(self, client: Any, name: str) -> None:
        self._client, self._name = client, name

    def states(self, backend: str = HTTP) -> dict[str, dict[str, str]]:
        """The state of the server in each slot. Raises Unavailable."""
        _, head, *lines = self._show(f"servers state {backend}")
        names = head.removeprefix("# ").split()
        rows = [dict(zip(names, line.split(" "), strict=False)) for line in lines if line.strip()]
        return {row["srv_name"]: row for row in rows}

    def sessions(self, slot: str) -> int:
        """The number of requests that the server in this slot is answering, in all backends. Raises Unavailable."""
        head, *lines = self._show("stat -1 4 -1")
        names = head.removeprefix("# ").split(",")
        rows = [dict(zip(names, line.split(","), strict=False)) for line in lines if line]
        return sum(int(row["scur"]) for row in rows if row["svname"] == slot)

    def drain(self, slot: str) -> None:
        """Give the server in this slot no new request; the backend of gRPC tracks that of HTTP. Raises Unavailable."""
        self.ask(f"set server {HTTP}/{slot} state drain")

    def switch(self, slot: str) -> None:
        """Give all new requests to the server in this slot, and none to the other. Raises Unavailable."""
        other = next(one for one in SLOTS if one != slot)
        self.ask(f"set server {HTTP}/{slot} state ready; set server {HTTP}/{other} state drain")

    def answers(self) -> bool:
        """Whether the proxy runs with our configuration."""
        try:
            return set(self.states()) == set(SLOTS)
        except Unavailable:
            return False

    def _show(self, what: str) -> list[str]:
        """The lines of a table, which has a head; the engine can lose an answer, so it asks again. Raises Unavailable."""
        for _ in range(_SHOW_TIMES):
            if lines := self.ask(f"show {what}").splitlines():
                return lines
            time.sleep(_RETRY_S)
        raise Unavailable(f"the proxy {self._name} answers nothing to `show {what}`: see `docker logs {self._name}`")

    def ask(self, command: str) -> str:
        """The answer to one line of commands. Raises Unavailable."""
        import docker

        try:
            done = self._client.containers.get(self._name).exec_run(["bash", "-c", _BASH, "api", command])
        except docker.errors.APIError as error:
            raise Unavailable(f"the proxy {self._name} cannot be asked ({image.reason(error)}): see `docker ps -a`") from None
        text: str = done.output.decode(errors="replace")
        if done.exit_code:
            raise Unavailable(f"the proxy {self._name} does not answer ({text.strip()[-200:]}): see `docker logs {self._name}`")
        return text.strip()
