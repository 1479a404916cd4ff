"""`make serve-bench`: requests a second of a candidate's server, of other servers, of its HTTP stack with a constant, and in process.

The candidate is that of CANDIDATE, by default models/candidates/onnxruntime; its requests are single held-out rows of the checkout. A
server has one core and the load another. All are measured in turn, in several rounds; a figure is the median of its rounds, with the lowest
and the highest. PEERS names the other servers, by default all of them if the candidate runs in ONNX Runtime; each is installed once, below
.peers/. Prints a table and, as the last line, the figures as JSON; exits 3 if a goal is missed. `SHORT=1`: one short round without peers.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serve import client, peers, servers, table
from benchmarks.serve.peers import PEERS, Columns
from benchmarks.serve.servers import Command
from benchmarks.serve.table import ALONE, BATCHED, CONSTANT, Rates
from paddleship.config import loading
from paddleship.data import dataset
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.preprocess import build
from paddleship.shipped.computing.spec import TensorSpec
from paddleship.system import host

_CONNECTIONS = (1, 8, 32)
_ROUNDS, _SECONDS, _ROWS = 5, 4.0, 64


class Contest:
    """A candidate, the rows that it is asked, and what each server answers a second."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder, self._seconds, self._candidate = folder.resolve(), seconds, Candidate.load(folder)
        self._specs, self._rows = rows_of(self._candidate)
        self._bodies = [peers.open_inference(row, self._specs) for row in self._rows]
        self._path = f"/v2/models/{self._candidate.model}/infer"
        self._size, self._first = 0, np.empty(0)
        self.rates, self.unable = Rates(), dict[str, str]()

    def measure(self, others: list[str]) -> None:
        """One round of everything."""
        for count, rate in servers.in_process(self._folder, self._bodies, self._seconds).items():
            self.rates.inside.setdefault(count, []).append(rate)
        for name, batching in ((BATCHED, True), (ALONE, False)):
            with servers.ours(self._folder, batching=batching) as command:
                self._measure(name, command, self._path, self._bodies)
        self._measure(CONSTANT, servers.constant(self._size), self._path, self._bodies)
        for name in others:
            with self._without(name):
                self._measure_peer(name)

    def _measure_peer(self, name: str) -> None:
        peer = PEERS[name]
        if reason := peer.environment.install():
            raise RuntimeError(reason)
        bodies = [peer.body(row, self._specs) for row in self._rows]
        path = peer.path.format(model=self._candidate.model)
        answer = self._measure(name, lambda port: peer.command(self._folder, port), path, bodies)
        if not np.allclose(_numbers(peer.read(json.loads(answer))), self._first, rtol=1e-3, atol=1e-4):
            raise RuntimeError("it answers something else")

    def _measure(self, name: str, command: Command, path: str, bodies: list[bytes]) -> bytes:
        """Measure a server, and return its answer to the first request."""
        requests = [client.request(path, body) for body in bodies]
        with servers.running(command, path, bodies[0]) as server:
            for count in _CONNECTIONS:
                measured = server.measure(requests, connections=count, seconds=self._seconds)
                self.rates.servers.setdefault((name, count), []).append(measured)
        if name == BATCHED:
            self._size, self._first = len(server.answer), _numbers(peers.first_output(json.loads(server.answer)))
        return server.answer

    @contextlib.contextmanager
    def _without(self, name: str) -> Iterator[None]:
        """Go on without a server that cannot be measured, and without what was measured of it."""
        try:
            yield
        except (RuntimeError, OSError) as reason:
            self.unable[name] = str(reason)
            for key in [key for key in self.rates.servers if key[0] == name]:
                del self.rates.servers[key]


def main() -> None:
    machine, short = host.fingerprint(), bool(os.environ.get("SHORT"))
    rounds, seconds = (1, 1.0) if short else (_ROUNDS, _SECONDS)
    folder = Path(os.environ.get("CANDIDATE") or "models/candidates/onnxruntime")
    if not (folder / "candidate.json").exists():
        sys.exit(f"error: there is no candidate in {folder}: make one with `make pipeline UNTIL=optimize`, or give CANDIDATE=folder")
    others, contest = _peers(short, Candidate.load(folder)), Contest(folder, seconds)
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        contest.measure([name for name in others if name not in contest.unable])
    print(table.of(contest.rates, contest.unable))
    figures = table.figures(contest.rates)
    missed = [name for name, goal in table.GOALS.items() if figures.get(name, goal) < goal]
    print(json.dumps({**figures, "goals": table.GOALS, "goal_missed": len(missed), "rounds": rounds, "host": machine}))
    sys.exit(3 if missed and not short else 0)


def _peers(short: bool, candidate: Candidate) -> list[str]:
    """The other servers that are measured: those that are named, or all that can serve the candidate."""
    named = os.environ.get("PEERS")
    if named is None:
        return [] if short or candidate.runtime != "onnxruntime" else [*PEERS]
    chosen = [name.strip() for name in named.split(",") if name.strip()]
    if unknown := [name for name in chosen if name not in PEERS]:
        sys.exit(f"error: PEERS names {unknown[0]!r}, which is no other server: use some of {', '.join(PEERS)}")
    return chosen


def rows_of(candidate: Candidate) -> tuple[Sequence[TensorSpec], list[Columns]]:
    """The tensors of a request, and the columns of held-out rows, one row each."""
    rows = dataset.read(Path(loading.load(Path("params.yaml")).paths.prepared), "test")
    specs = build(candidate.preprocess, candidate.inputs, candidate.dimensions).requests
    return specs, [rows.take([row]).columns for row in range(min(_ROWS, len(rows)))]


def _numbers(values: Any) -> Any:
    return np.ravel(np.asarray(values, float))


if __name__ == "__main__":
    main()
