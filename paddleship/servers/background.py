"""Background servers: started once, found by a state file, and stopped again."""

from __future__ import annotations

import atexit
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit

from paddleship.errors import Unavailable
from paddleship.shipped.computing.files import write_text
from paddleship.system import processes

_START_S = 120
_STOP_S = 15
_ANSWER_S = 15


@dataclass(frozen=True)
class ServerProcess:
    """A program that answers on a loopback port. Its log and state file are in `state`."""

    name: str
    state: Path
    port: int
    port_variable: str
    command: Sequence[str]
    health: str
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> str:
        """Start it and wait until it is healthy, or find it running. Returns its address. Raises Unavailable."""
        if url := running(self.state, self.name):
            if os.environ.get(self.port_variable) and urlsplit(url).port != self.port:
                print(f"{self.name} runs at {url} already: for port {self.port}, run `make stop` first")
            return url
        if not _is_free(self.port):
            raise Unavailable(
                f"port {self.port} for {self.name} is in use by another program: "
                f"run `make ui {self.port_variable}=<another port>`, or end that program"
            )
        self.state.mkdir(parents=True, exist_ok=True)
        log, url = self.state / f"{self.name}.log", f"http://127.0.0.1:{self.port}"
        with log.open("w", encoding="utf-8") as stream:
            process = subprocess.Popen(
                self.command,
                cwd=self.state.parent,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        facts = {"pid": process.pid, "identity": processes.identity(process.pid), "url": url}
        write_text(_file(self.state, self.name), json.dumps(facts))
        deadline = time.monotonic() + _START_S
        while not _answers(url + self.health):
            if process.poll() is not None or time.monotonic() > deadline:
                stop(self.state, self.name)
                last = (log.read_text(encoding="utf-8").strip().splitlines() or ["no output"])[-1]
                raise Unavailable(f"{self.name} did not start ({last[:200]}): see {log}")
            time.sleep(0.2)
        process.returncode = 0  # it outlives this process, so nobody waits for it
        return url


def temporary(name: str, command: Sequence[str], *, health: str, environment: Mapping[str, str]) -> Callable[[], None]:
    """Start a server that ends with this process, and return what waits until it answers at `health`, or raises Unavailable.

    It has a session of its own, because an interrupt at the terminal goes to all processes there: this one would then have no server
    to report its end to. It is ended after what was registered with `atexit` later on, so that others can still send to it.
    """
    log = tempfile.TemporaryFile()  # noqa: SIM115 it is open as long as the server writes to it
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    atexit.register(_end, process)

    def wait() -> None:
        deadline = time.monotonic() + _START_S
        while not _answers(health):
            if process.poll() is not None or time.monotonic() > deadline:
                log.seek(0)
                last = (log.read().decode(errors="replace").strip().splitlines() or ["no output"])[-1]
                raise Unavailable(f"{name} did not start ({last[:200]}): start a server with `make ui`, and run again")
            time.sleep(0.05)

    return wait


def require(url: str, *, name: str, variable: str) -> None:
    """Raise Unavailable if no HTTP server answers at the address in `variable`."""
    try:
        urllib.request.urlopen(url, timeout=_ANSWER_S).close()  # noqa: S310 the user's own address
    except HTTPError:
        pass  # it may ask for a key that its client has
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise Unavailable(
            f"{name} does not answer at {url} ({reason}): start it, or correct {variable}; without {variable} a run starts its own"
        ) from None


def running(state: Path, name: str) -> str | None:
    """The address of a running server that `start` started; None if there is none."""
    path = _file(state, name)
    if not path.exists():
        return None
    facts = json.loads(path.read_text(encoding="utf-8"))
    return str(facts["url"]) if _is_alive(facts) else None


def stop(state: Path, name: str) -> bool:
    """Stop a server that `start` started, with all of its processes. Returns whether there was one."""
    path = _file(state, name)
    if not path.exists():
        return False
    facts = json.loads(path.read_text(encoding="utf-8"))
    was_alive = _is_alive(facts)
    if was_alive:
        os.killpg(facts["pid"], signal.SIGTERM)
        deadline = time.monotonic() + _STOP_S
        while _is_alive(facts) and time.monotonic() < deadline:
            time.sleep(0.1)
        with suppress(ProcessLookupError):
            os.killpg(facts["pid"], signal.SIGKILL)  # processes that ignored SIGTERM
    path.unlink()
    return was_alive


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port on loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _file(state: Path, name: str) -> Path:
    return state / f"{name}.server.json"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310 an address on loopback
            return bool(response.status == 200)
    except OSError:
        return False


def _is_alive(facts: Mapping[str, object]) -> bool:
    """Whether the process is the one that was started, not another one with the same pid."""
    return processes.is_alive(str(facts.get("identity", "//"))) is True
