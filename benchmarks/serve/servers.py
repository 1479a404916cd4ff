"""The servers that are compared, each as a process on one core, and the load on the other cores."""

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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from benchmarks.serve import client
from paddleship.servers import background
from paddleship.shipped.serving.settings import Settings

BATCHED, ALONE, CONSTANT = "paddleship", "paddleship, no batching", "constant on its HTTP stack"
SERVERS = (BATCHED, ALONE, CONSTANT)
_READY_S = 60
_CORES = sorted(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Measured:
    """Requests a second, milliseconds of the 99th percentile, microseconds of the server's processor for each, and failed requests."""

    rate: float
    p99_ms: float
    cpu_us: float
    failures: int


@dataclass(frozen=True)
class Server:
    port: int
    process: subprocess.Popen[bytes]

    def measure(self, requests: Sequence[bytes], *, connections: int, seconds: float) -> Measured:
        client.load(self.port, requests, connections=connections, seconds=seconds / 4)  # caches, and threads that start
        before = psutil.Process(self.process.pid).cpu_times()
        seen = client.load(self.port, requests, connections=connections, seconds=seconds)
        after = psutil.Process(self.process.pid).cpu_times()
        count = len(seen.samples_s)
        used_s = after.user + after.system - before.user - before.system
        return Measured(count / seen.seconds, 1000 * float(np.quantile(seen.samples_s, 0.99)), 1e6 * used_s / count, len(seen.failures))


@contextlib.contextmanager
def running(name: str, folder: Path, path: str, body: bytes, *, slo_ms: float | None = None) -> Iterator[Server]:
    """A server of the candidate in a folder, with an objective or none; or one that answers as many bytes as it does to a body."""
    with tempfile.TemporaryDirectory() as scratch, contextlib.ExitStack() as stack:
        copy, port = Path(scratch) / "candidate", background.free_port()
        command = ["-m", "paddleship.shipped.serving", "--candidate", str(copy), "--port", str(port)]
        if name == CONSTANT:
            with running(ALONE, folder, path, body) as ours:
                command = ["-m", "benchmarks.serve.constant", str(port), str(len(_answer(ours.port, path, body)))]
        else:
            shutil.copytree(folder, copy)
            Settings(batching=name == BATCHED, padding=name == BATCHED, slo_p99_ms=slo_ms).write(copy)
        log = stack.enter_context((Path(scratch) / "log").open("wb"))
        process = subprocess.Popen([sys.executable, *command], stdout=log, stderr=log)
        stack.callback(process.wait, timeout=60)
        stack.callback(process.send_signal, signal.SIGTERM)
        _apart(process.pid)
        _wait(port, path, body, process)
        yield Server(port, process)


def in_process(folder: Path, bodies: Sequence[bytes], seconds: float) -> dict[int, float]:
    """The candidate's answers a second without HTTP, by the number of requests that are answered together."""
    command = [sys.executable, "-m", "benchmarks.serve.in_process", str(folder), str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        _apart(process.pid)
        rates = json.loads(process.communicate(b"\n".join(bodies))[0])
    return {int(count): rate for count, rate in rates.items()}


def _apart(pid: int) -> None:
    """Give the process the first core, and this one the others."""
    os.sched_setaffinity(pid, _CORES[:1])
    os.sched_setaffinity(0, _CORES[1:] or _CORES)


def _wait(port: int, path: str, body: bytes, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _READY_S
    while not _answer(port, path, body):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the server did not answer")
        time.sleep(0.05)


def _answer(port: int, path: str, body: bytes) -> bytes:
    """The body of a good answer; empty if there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.read() if response.status == http.HTTPStatus.OK else b""
    except OSError:
        return b""
    finally:
        connection.close()
