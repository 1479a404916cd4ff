"""The servers that are compared, each with its processes on one core, and the load on the other cores."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from benchmarks.serve import client
from paddleship.servers import background
from paddleship.shipped.serving.settings import Settings

_READY_S, _STOP_S = 120, 20
_CORES = sorted(os.sched_getaffinity(0))
_ROOT = Path(__file__).parents[2]
Command = Callable[[int], Sequence[str]]  # of a port


@dataclass(frozen=True)
class Measured:
    """Requests a second, milliseconds of the 99th percentile, microseconds of the server's processor for each, and failed requests."""

    rate: float
    p99_ms: float
    cpu_us: float
    failures: int


@dataclass(frozen=True)
class Server:
    """A server that answers; `answer` is the body of its answer to the request that it was started with."""

    port: int
    process: psutil.Process
    answer: bytes

    def measure(self, requests: Sequence[bytes], *, connections: int, seconds: float) -> Measured:
        client.load(self.port, requests, connections=connections, seconds=seconds / 4)  # caches, and threads that start
        before = self._cpu_s()
        seen = client.load(self.port, requests, connections=connections, seconds=seconds)
        count = len(seen.samples_s)
        p99_ms = 1000 * float(np.quantile(seen.samples_s, 0.99))
        return Measured(count / seen.seconds, p99_ms, 1e6 * (self._cpu_s() - before) / count, len(seen.failures))

    def _cpu_s(self) -> float:
        """Seconds of processor that all its processes have used."""
        times = [one.cpu_times() for one in (self.process, *self.process.children(recursive=True))]
        return sum(one.user + one.system for one in times)


@contextlib.contextmanager
def running(command: Command, path: str, body: bytes) -> Iterator[Server]:
    """A server on the first core once it answers a request, in a folder of its own. Raises RuntimeError if it never does."""
    with tempfile.TemporaryDirectory() as scratch:
        port, log = background.free_port(), Path(scratch) / "server.log"
        with log.open("wb") as stream, _on_first_core():
            environment = {"PATH": "/usr/bin:/bin", "HOME": scratch}
            process = psutil.Popen([*command(port)], cwd=scratch, stdout=stream, stderr=stream, env=environment)
        try:
            yield Server(port, process, _first_answer(port, path, body, process, log))
        finally:
            _stop(process)


@contextlib.contextmanager
def ours(folder: Path, *, batching: bool, slo_ms: float | None = None) -> Iterator[Command]:
    """Our server of a candidate, with or without batching and an objective."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "candidate"
        shutil.copytree(folder, copy)
        Settings(batching=batching, padding=batching, slo_p99_ms=slo_ms).write(copy)
        yield lambda port: [sys.executable, "-m", "paddleship.shipped.serving", "--candidate", str(copy), "--port", str(port)]


def constant(size: int) -> Command:
    """A server that reads a request and answers so many bytes, on the HTTP stack of ours."""
    return lambda port: [sys.executable, str(Path(__file__).with_name("constant.py")), str(port), str(size)]


def in_process(folder: Path, bodies: Sequence[bytes], seconds: float) -> dict[int, float]:
    """The candidate's answers a second without HTTP, by the number of requests that are answered together."""
    command = [sys.executable, "-m", "benchmarks.serve.in_process", str(folder.resolve()), str(seconds)]
    with _on_first_core():
        process = subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with process:
        rates = json.loads(process.communicate(b"\n".join(bodies))[0])
    return {int(count): rate for count, rate in rates.items()}


@contextlib.contextmanager
def _on_first_core() -> Iterator[None]:
    """Processes that are started here, and theirs, have the first core; this process has the others afterwards."""
    os.sched_setaffinity(0, _CORES[:1])
    try:
        yield
    finally:
        os.sched_setaffinity(0, _CORES[1:] or _CORES)


def _first_answer(port: int, path: str, body: bytes, process: psutil.Popen, log: Path) -> bytes:
    deadline = time.monotonic() + _READY_S
    while not (answer := _answer(port, path, body)):
        if process.poll() is not None or time.monotonic() > deadline:
            lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
            raise RuntimeError(f"the server did not answer ({next(filter(str.strip, reversed(lines)), 'it wrote nothing')})")
        time.sleep(0.1)
    return answer


def _answer(port: int, path: str, body: bytes) -> bytes:
    """The body of a good answer; empty if there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.read() if response.status == http.HTTPStatus.OK else b""
    except (OSError, http.client.HTTPException):
        return b""
    finally:
        connection.close()


def _stop(process: psutil.Popen) -> None:
    """End a server and its processes, those that it leaves behind too."""
    with contextlib.suppress(psutil.NoSuchProcess):
        everyone = [process, *process.children(recursive=True)]
        process.send_signal(signal.SIGTERM)
        for one in psutil.wait_procs(everyone, timeout=_STOP_S)[1]:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait(timeout=_STOP_S)
