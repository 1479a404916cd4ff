"""`make serve-bench`: requests a second of a candidate's server, of its HTTP stack with a constant, and of the candidate in process.

The candidate is that of CANDIDATE, by default models/candidates/onnxruntime; its requests are single held-out rows of the checkout. The
server has one core and the load another. All are measured in turn, in several rounds; a figure is the median of its rounds, with the lowest
and the highest. Prints a table and, as the last line, the figures as JSON; exits 3 if a goal is missed. `SHORT=1`: one short round.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson

from benchmarks.serve import client, servers
from benchmarks.serve.in_process import TOGETHER
from benchmarks.serve.servers import BATCHED, CONSTANT, SERVERS
from paddleship.config import loading
from paddleship.data import dataset
from paddleship.shipped.computing.candidate import Candidate
from paddleship.shipped.computing.preprocess import build
from paddleship.shipped.serving.transports.http import protocol
from paddleship.system import host

CONNECTIONS = (1, 8, 32)
_ROUNDS, _SECONDS, _ROWS = 5, 4.0, 64
_GOALS = {"of_constant_32": 0.8, "of_in_process_1": 0.85, "of_in_process_32": 0.85}
Rows = dict[tuple[str, int], list[servers.Measured]]  # by server and number of connections, a value for each round


def main() -> None:
    machine, short = host.fingerprint(), bool(os.environ.get("SHORT"))
    rounds, seconds = (1, 1.0) if short else (_ROUNDS, _SECONDS)
    folder = Path(os.environ.get("CANDIDATE") or "models/candidates/onnxruntime")
    if not (folder / "candidate.json").exists():
        sys.exit(f"error: there is no candidate in {folder}: make one with `make pipeline UNTIL=optimize`, or give CANDIDATE=folder")
    candidate = Candidate.load(folder)
    bodies, path = bodies_of(candidate), f"/v2/models/{candidate.model}/infer"
    requests = [client.request(path, body) for body in bodies]
    rows: Rows = {(name, count): [] for name in SERVERS for count in CONNECTIONS}
    inside: dict[int, list[float]] = {count: [] for count in TOGETHER}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        for count, rate in servers.in_process(folder, bodies, seconds).items():
            inside[count].append(rate)
        for name in SERVERS:
            with servers.running(name, folder, path, bodies[0]) as server:
                for count in CONNECTIONS:
                    rows[name, count].append(server.measure(requests, connections=count, seconds=seconds))
    print(_table(rows, inside))
    shares = _shares(rows, inside)
    missed = [name for name, goal in _GOALS.items() if shares[name] < goal]
    print(json.dumps({**shares, "goals": _GOALS, "goal_missed": len(missed), "rounds": rounds, "host": machine}))
    sys.exit(3 if missed and not short else 0)


def bodies_of(candidate: Candidate) -> list[bytes]:
    """Requests of one held-out row each."""
    rows = dataset.read(Path(loading.load(Path("params.yaml")).paths.prepared), "test")
    specs = build(candidate.preprocess, candidate.inputs, candidate.dimensions).requests
    made = []
    for row in range(min(_ROWS, len(rows))):
        columns = rows.take([row]).columns
        tensors = [protocol.encode_tensor(spec.name, columns[spec.name]) for spec in specs]
        made.append(orjson.dumps({"inputs": tensors}, option=orjson.OPT_SERIALIZE_NUMPY))
    return made


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _shares(rows: Rows, inside: dict[int, list[float]]) -> dict[str, float]:
    """The server's requests a second as shares: of the constant, and of what the stack and the candidate need in turn on one core."""
    rates = {key: _median([one.rate for one in several]) for key, several in rows.items()}
    both = {count: 1 / (1 / rates[CONSTANT, count] + 1 / _median(inside[count])) for count in (1, 32)}
    return {
        "of_constant_1": round(rates[BATCHED, 1] / rates[CONSTANT, 1], 3),
        "of_constant_32": round(rates[BATCHED, 32] / rates[CONSTANT, 32], 3),
        "of_in_process_1": round(rates[BATCHED, 1] / both[1], 3),
        "of_in_process_32": round(rates[BATCHED, 32] / both[32], 3),
        "failures": sum(one.failures for several in rows.values() for one in several),
    }


def _table(rows: Rows, inside: dict[int, list[float]]) -> str:
    lines = [f"{'server':26} {'connections':>11} {'requests/s':>28} {'p99 ms':>8} {'cpu µs':>7}"]
    for (name, count), several in rows.items():
        rate, p99, cpu = (_median(values) for values in zip(*((one.rate, one.p99_ms, one.cpu_us) for one in several), strict=True))
        lines.append(f"{name:26} {count:11} {_spread([one.rate for one in several], rate)} {p99:8.2f} {cpu:7.1f}")
    for count, values in inside.items():
        lines.append(f"{'in process, together':26} {count:11} {_spread(values, _median(values))}")
    return "\n".join(lines)


def _spread(values: Sequence[float], middle: float) -> str:
    return f"{f'{middle:,.0f} [{min(values):,.0f}, {max(values):,.0f}]':>28}"


if __name__ == "__main__":
    main()
