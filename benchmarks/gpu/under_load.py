"""A server under load: many callers at once, each in a process of its own, and every answer compared with eager's."""

from __future__ import annotations

import contextlib
import http.client
import json
import multiprocessing
import random
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import numpy as np

from benchmarks.gpu import serving
from paddleship.proof.evidence import Evidence
from paddleship.shipped.computing.candidate import Candidate


@dataclass
class Loaded:
    """Milliseconds of each right answer, requests that were refused for lack of room, and what was wrong with the others."""

    seconds: float = 0.0
    rows: int = 0
    took_ms: list[float] = field(default_factory=list)
    refused: int = 0
    faults: list[str] = field(default_factory=list)

    @property
    def requests_per_s(self) -> float:
        return len(self.took_ms) / self.seconds if self.seconds else 0.0

    def __str__(self) -> str:
        p50, p99 = (float(np.quantile(self.took_ms, share)) if self.took_ms else float("nan") for share in (0.5, 0.99))
        answered = f"{len(self.took_ms):,} requests with {self.rows:,} rows in {self.seconds:.0f} s, {self.requests_per_s:,.0f} a second"
        faults = f", {len(self.faults):,} wrong or failed: {self.faults[0]}" if self.faults else ""
        return f"{answered}, p50 {p50:.3g} ms, p99 {p99:.3g} ms, {self.refused:,} refused for lack of room{faults}"


def run(port: int, folder: Path, parity: Path, *, callers: int, seconds: float, noise_limit: float) -> Loaded:
    """Ask the real rows of the evidence in `parity` from so many processes for so many seconds."""
    arguments = [(port, folder, parity, seconds, noise_limit, seed) for seed in range(callers)]
    with multiprocessing.get_context("spawn").Pool(callers) as pool:
        found = pool.starmap(ask, arguments, chunksize=1)
    total = Loaded(seconds=max(one.seconds for one in found))
    for one in found:
        total.rows, total.refused = total.rows + one.rows, total.refused + one.refused
        total.took_ms += one.took_ms
        total.faults += one.faults
    return total


def ask(port: int, folder: Path, parity: Path, seconds: float, noise_limit: float, seed: int) -> Loaded:
    """What one caller sees that asks one question after the other, in a random order."""
    candidate, evidence = Candidate.load(folder), Evidence.load(parity).only(lambda case: bool(case.rows))
    cases = [index for index, case in enumerate(evidence.cases) if len(case.rows) <= candidate.max_batch]
    bodies = {index: serving.body(evidence.cases[index].inputs) for index in cases}
    seen, chance, began = Loaded(), random.Random(seed), time.monotonic()  # noqa: S311 a load
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        while time.monotonic() - began < seconds:
            index, asked = chance.choice(cases), time.perf_counter()
            try:
                connection.request("POST", serving.path(candidate), bodies[index], serving.JSON)
                response = connection.getresponse()
                content = response.read()
            except (OSError, http.client.HTTPException) as error:
                seen.faults.append(f"{type(error).__name__}: {error}")
                break
            took_ms = 1000 * (time.perf_counter() - asked)
            if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
                seen.refused += 1
                continue
            fault = content[:200].decode(errors="replace") if response.status != HTTPStatus.OK else ""
            if fault := fault or serving.difference(json.loads(content), evidence, index, noise_limit):
                seen.faults.append(fault)
                continue
            seen.took_ms.append(took_ms)
            seen.rows += len(evidence.cases[index].rows)
    seen.seconds = time.monotonic() - began
    return seen
