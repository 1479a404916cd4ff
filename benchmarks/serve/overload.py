"""`make serve-overload-bench`: what a server answers in time at twice the load that it can answer.

Two candidates: that of CANDIDATE, whose cost is HTTP, and one that takes milliseconds a row. The capacity is what a closed loop gets over
32 connections, refusals not counted. Then requests come at random times at twice that rate, over at most 128 connections. Goodput is the
answers a second within the objective, from the time at which their requests came. Prints a table and, as the last line, the figures as
JSON; exits 3 if a goal is missed.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson

from benchmarks.serve import client, open_loop, peers, servers, slow_model
from benchmarks.serve.__main__ import rows_of
from paddleship.shipped.computing.candidate import Candidate
from paddleship.system import host

_ROUNDS, _SECONDS, _LOAD, _CONNECTIONS = 7, 4.0, 2.0, 128
_GOALS = {"goodput_share": 0.95, "p99_of_objective": 1.0}


@dataclass(frozen=True)
class Case:
    """A candidate in a folder, requests to it, and the objective of its server in milliseconds."""

    name: str
    folder: Path
    path: str
    bodies: tuple[bytes, ...]
    slo_ms: float


@dataclass(frozen=True)
class Outcome:
    capacity: float
    goodput: float
    p99_ms: float
    refused: float
    refused_ms: float
    lost: float
    failures: int


def main() -> None:
    machine, short = host.fingerprint(), bool(os.environ.get("SHORT"))
    rounds, seconds = (1, 2.0) if short else (_ROUNDS, _SECONDS)
    folder = Path(os.environ.get("CANDIDATE") or "models/candidates/onnxruntime")
    with tempfile.TemporaryDirectory() as scratch:
        cases = [_slow(Path(scratch) / "slow"), *([_given(folder)] if (folder / "candidate.json").exists() else [])]
        outcomes = {case: _measure(case, seconds, rounds) for case in cases}
    print(_table(outcomes))
    figures = {name: value for case, several in outcomes.items() for name, value in _figures(case, several).items()}
    missed = [name for name, value in figures.items() if _misses(name, value)]
    print(json.dumps({**figures, "goals": _GOALS, "goal_missed": len(missed), "rounds": rounds, "host": machine}))
    sys.exit(3 if missed and not short else 0)


def _slow(folder: Path) -> Case:
    slow_model.make(folder)
    rows = np.random.default_rng(1).normal(size=(64, slow_model.SIZE)).round(4)
    tensors = [{"name": "x", "datatype": "FP32", "shape": [1, slow_model.SIZE], "data": row.tolist()} for row in rows]
    return Case("slow", folder, f"/v2/models/{slow_model.NAME}/infer", tuple(orjson.dumps({"inputs": [one]}) for one in tensors), 250)


def _given(folder: Path) -> Case:
    candidate = Candidate.load(folder)
    specs, rows = rows_of(candidate)
    bodies = tuple(peers.open_inference(row, specs) for row in rows)
    return Case(candidate.model, folder, f"/v2/models/{candidate.model}/infer", bodies, 100)


def _measure(case: Case, seconds: float, rounds: int) -> list[Outcome]:
    """The capacity and the overload in turn, so that what else runs on the machine changes both alike."""
    requests = [client.request(case.path, body) for body in case.bodies]
    with (
        servers.ours(case.folder, batching=True, slo_ms=case.slo_ms) as command,
        servers.running(command, case.path, case.bodies[0]) as server,
    ):
        client.load(server.port, requests, connections=32, seconds=seconds / 2)
        return [_round(case, server.port, requests, seconds, seed) for seed in range(rounds)]


def _round(case: Case, port: int, requests: Sequence[bytes], seconds: float, seed: int) -> Outcome:
    closed = client.load(port, requests, connections=32, seconds=seconds / 2)
    capacity = (len(closed.samples_s) - len(closed.failures)) / closed.seconds
    seen = open_loop.load(port, requests, rate=_LOAD * capacity, connections=_CONNECTIONS, seconds=seconds, seed=seed)
    in_time = [took for took in seen.answered_s if 1000 * took <= case.slo_ms]
    return Outcome(
        capacity,
        len(in_time) / seconds,
        1000 * float(np.quantile(seen.answered_s, 0.99)),
        len(seen.refused_s) / seen.sent,
        1000 * statistics.median(seen.refused_s or [0.0]),
        seen.lost / seen.sent,
        len([status for status in closed.failures if " 503 " not in status]) + len(seen.other),
    )


def _figures(case: Case, several: Sequence[Outcome]) -> dict[str, float]:
    return {
        f"{case.name}_capacity_per_s": round(statistics.median(one.capacity for one in several), 1),
        f"{case.name}_goodput_share": round(statistics.median(one.goodput / one.capacity for one in several), 3),
        f"{case.name}_p99_of_objective": round(statistics.median(one.p99_ms for one in several) / case.slo_ms, 3),
        f"{case.name}_failures": sum(one.failures for one in several),
    }


def _misses(name: str, value: float) -> bool:
    if name.endswith("goodput_share"):
        return value < _GOALS["goodput_share"]
    return value > (_GOALS["p99_of_objective"] if name.endswith("p99_of_objective") else 0) and not name.endswith("per_s")


def _table(outcomes: dict[Case, list[Outcome]]) -> str:
    lines = [f"{'model':10} {'capacity/s':>10} {'goodput':>8} {'p99 ms':>7} {'SLO ms':>7} {'refused':>8} {'in ms':>6} {'lost':>6}"]
    for case, several in outcomes.items():
        for one in several:
            lines.append(
                f"{case.name:10} {one.capacity:10,.0f} {one.goodput / one.capacity:8.3f} {one.p99_ms:7.1f} {case.slo_ms:7.0f} "
                f"{one.refused:8.1%} {one.refused_ms:6.1f} {one.lost:6.1%}"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
