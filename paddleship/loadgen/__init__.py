"""Put load on a model in this process, by the scenarios of MLPerf Inference: `run`, and `peak_qps` for the search.

MLPerf LoadGen makes the load if it is installed; otherwise an engine of paddleship runs the same definitions. The result names the
engine. Call it in a process of its own with one loaded model, which another process can kill: there is no time limit for a model that
never answers. One run at a time.

The overhead of LoadGen, measured on 2 busy cores: 2 to 3 µs for the median latency of a query, and the same between two queries, so 1%
for a model that answers in 0.2 ms; in Server about 0.09 ms to wake the worker (plain engine: 0.07). It keeps about 0.5 kB per query,
which the process does not free: measure memory in short runs. It shares the interpreter with the model, so Server queries are issued
late while a model holds the GIL; their latency still counts from the time when they were due.
"""

from __future__ import annotations

import time
from typing import Literal

from paddleship.errors import ParamsError, Unavailable
from paddleship.loadgen.peak import Peak, RateTrial
from paddleship.loadgen.scenarios import Answer, Measured, MultiStream, Offline, Scenario, Server, SingleStream
from paddleship.loadgen.stopping import needed

__all__ = [
    "Answer",
    "LoadGenerator",
    "Measured",
    "MultiStream",
    "Offline",
    "Peak",
    "RateTrial",
    "Scenario",
    "Server",
    "SingleStream",
    "needed",
    "peak_qps",
    "run",
    "unavailable",
]

LoadGenerator = Literal["mlperf", "plain"]

_CALIBRATION_S = 0.05
_SLACK = 1.25


def unavailable() -> str:
    """Why MLPerf LoadGen cannot be used here; empty if it can."""
    from paddleship.loadgen import mlperf

    return mlperf.unavailable()


def run(scenario: Scenario, answer: Answer, *, rows: int, seed: int, engine: LoadGenerator | None = None) -> Measured:
    """Run one scenario on the rows 0 to `rows` - 1, in this thread; the seed makes it repeatable except for times.

    Exceptions of `answer` are raised from here. Without `engine`, LoadGen is used if it is installed. Raises ParamsError without rows, and
    Unavailable for an engine that is not installed.
    """
    if rows < 1:
        raise ParamsError(f"a load test needs at least one row (got {rows}): use a test set that is not empty")
    missing = "" if engine == "plain" else unavailable()
    if missing and engine == "mlperf":
        raise Unavailable(missing)
    expected_per_s = _expected_per_s(scenario, answer, rows)
    if missing or engine == "plain":
        from paddleship.loadgen import plain

        return plain.run(scenario, answer, rows=rows, seed=seed, expected_per_s=expected_per_s)
    from paddleship.loadgen import mlperf

    return mlperf.run(scenario, answer, rows=rows, seed=seed, expected_per_s=expected_per_s)


def peak_qps(
    answer: Answer,
    *,
    rows: int,
    seed: int,
    slo_p99_ms: float,
    max_seconds: float,
    batch_size: int = 1,
    min_queries: int = 662,
    engine: LoadGenerator | None = None,
) -> Peak:
    """Search the highest Server load that keeps `slo_p99_ms` with confidence, in about `max_seconds`.

    Each load gets at least `min_queries` queries. If no load keeps the objective, the result says how near the best one came.
    """
    from paddleship.loadgen import peak

    lowest = Server(target_qps=1, slo_p99_ms=slo_p99_ms, batch_size=batch_size, min_queries=min_queries)
    capacity_per_s = batch_size / _fastest_s(answer, _some(batch_size, rows))

    def measure(scenario: Server) -> Measured:
        return run(scenario, answer, rows=rows, seed=seed, engine=engine)

    return peak.search(measure, lowest, capacity_per_s=capacity_per_s, max_seconds=max_seconds)


def _expected_per_s(scenario: Scenario, answer: Answer, rows: int) -> float:
    """An upper estimate of queries (Offline: rows) per second, from the fastest of a few answers, which are not measured."""
    if isinstance(scenario, Server):
        return scenario.target_qps
    if isinstance(scenario, Offline) and scenario.expected_per_s is not None:
        return scenario.expected_per_s
    if not scenario.min_seconds:
        return 1.0  # the minimum number of queries applies, not the time
    fastest_s = _fastest_s(answer, _some(scenario.rows_at_once, rows))
    return _SLACK * scenario.batch_size / fastest_s if isinstance(scenario, Offline) else 1 / fastest_s  # LoadGen doubles 1 / fastest_s


def _some(count: int, rows: int) -> list[int]:
    return [index % rows for index in range(count)]


def _fastest_s(answer: Answer, indices: list[int]) -> float:
    end = time.perf_counter() + _CALIBRATION_S
    times: list[float] = []
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        answer(indices)
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-6)
