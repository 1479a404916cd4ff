"""A candidate behind its server: as many rows of the evidence as asked, each answer compared with eager's."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.numerics import differences
from paddleship.proof.evidence import ROWS, Evidence
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.serving.settings import Settings

_ROOT = Path(__file__).parents[2]
_READY_S = 120
_TYPES = {"float32": "FP32", "int64": "INT64", "int32": "INT32", "bool": "BOOL"}


@dataclass(frozen=True)
class Served:
    """Rows that were asked and answered as by eager, requests per second of one caller, and the first problem."""

    asked: int
    right: int
    per_s: float
    problem: str = ""


JSON = {"Content-Type": "application/json"}


def path(candidate: Candidate) -> str:
    return f"/v2/models/{candidate.model}/infer"


def as_packaged(folder: Path, parity: Path, target: Path) -> Path:
    """A copy of a candidate in a new folder `target`, with a server that joins requests where `verify` allows it, as in an image."""
    facts = json.loads((parity / "rows.json").read_text(encoding="utf-8"))
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder, target)
    together = facts["independent"] and Candidate.load(target).precision == "float32"
    Settings(batching=together, padding=together and facts["padded"]).write(target)
    return target


@contextlib.contextmanager
def server(folder: Path, log: Path) -> Iterator[int]:
    """A server of the candidate in `folder`; yields its port. Raises RuntimeError with the last line of its log if it does not start."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH", "")]))}
    command = [sys.executable, "-m", "paddleship.shipped.serving", "--candidate", str(folder), "--port", str(port)]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment)
        try:
            _wait(port, process, log)
            yield port
        finally:
            process.terminate()
            process.wait(30)


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _READY_S
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
            connection.request("GET", "/v2/health/ready")
            response = connection.getresponse()
            response.read()
            if response.status == 200:
                return
        time.sleep(0.2)
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    raise RuntimeError(f"the server did not start: {lines[-1] if lines else 'it said nothing'}")


def ask(port: int, folder: Path, parity: Path, *, rows: int, noise_limit: float) -> Served:
    """Ask the real rows of the evidence in `parity`, again and again, until so many rows are answered."""
    candidate, evidence = Candidate.load(folder), Evidence.load(parity).only(lambda case: bool(case.rows))
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        return _ask(connection, candidate, evidence, rows=rows, noise_limit=noise_limit)


def _ask(connection: http.client.HTTPConnection, candidate: Candidate, evidence: Evidence, *, rows: int, noise_limit: float) -> Served:
    asked, right, requests, problem, start = 0, 0, 0, "", time.monotonic()
    while asked < rows:
        for index, case in enumerate(evidence.cases):
            if asked >= rows or len(case.rows) > candidate.max_batch:
                continue
            connection.request("POST", path(candidate), body(case.inputs), JSON)
            response = connection.getresponse()
            content = json.loads(response.read())
            wrong = str(content)[:200] if response.status != 200 else difference(content, evidence, index, noise_limit)
            asked, right, requests = asked + len(case.rows), right + len(case.rows) * (not wrong), requests + 1
            problem = problem or wrong
    return Served(asked, right, requests / (time.monotonic() - start), problem)


def body(inputs: dict[str, Any]) -> str:
    """A request for a batch, in JSON."""
    tensors = [
        {"name": name, "datatype": _TYPES[str(array.dtype)], "shape": list(array.shape), "data": array.ravel().tolist()}
        for name, array in inputs.items()
    ]
    return json.dumps({"inputs": tensors})


def difference(content: dict[str, Any], evidence: Evidence, index: int, noise_limit: float) -> str:
    """What is wrong with an answer; empty if it is eager's. The limit is that of accept: two models apart from the truth."""
    found = {item["name"]: item for item in content["outputs"]}
    for name, expected in evidence.reference[index].items():
        answer = np.array(found[name]["data"], expected.dtype).reshape(found[name]["shape"])
        error = float(differences.elementwise_distance(answer, expected).max(initial=0))
        if not error <= 2 * noise_limit * evidence.noise[ROWS][name].largest:
            return f"{evidence.cases[index].name}: {name} is off by {error:.3g}"
    return ""
