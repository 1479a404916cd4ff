"""Load on a model in this very process, by the scenarios of MLPerf Inference: `run`, and `peak_qps` for the search.

MLPerf LoadGen makes the load where it can be had; elsewhere the same definitions run in an engine of our own, and
the result says which it was. Call it in a process of its own that holds one loaded model and that someone
else may kill: a model that never answers is never given up here.
"""

from __future__ import annotations

import time
from typing import Literal

from paddleship.errors import ParamsError, Unavailable
from paddleship.loadgen.scenarios import Answer, Measured, MultiStream, Offline, Scenario, Server, SingleStream

__all__ = ["Answer", "Measured", "MultiStream", "Offline", "Scenario", "Server", "SingleStream", "run", "unavailable"]

Engine = Literal["mlperf", "plain"]

_CALIBRATION_S = 0.05
_SLACK = 1.25


def unavailable() -> str:
    """Why MLPerf LoadGen cannot be used here; empty when it can."""
    from paddleship.loadgen import mlperf

    return mlperf.unavailable()


def run(scenario: Scenario, answer: Answer, *, rows: int, seed: int, engine: Engine | None = None) -> Measured:
    """Run one scenario on the rows 0 to `rows` - 1, in this thread; repeatable from the seed but for the times.

    What `answer` raises is raised from here. Without `engine` it is LoadGen where it can be had. Raises ParamsError
    without rows, and Unavailable for an engine that cannot be had.
    """
    if rows < 1:
        raise ParamsError(f"a load needs rows to ask for (got {rows}): give it a test set that is not empty")
    from paddleship.loadgen import mlperf

    missing = mlperf.unavailable() if engine != "plain" else ""
    if missing and engine == "mlperf":
        raise Unavailable(missing)
    expected = _expected_per_s(scenario, answer, rows)
    return mlperf.run(scenario, answer, rows=rows, seed=seed, expected_per_s=expected)


def _expected_per_s(scenario: Scenario, answer: Answer, rows: int) -> float:
    """Queries (Offline: rows) a second to be ready for, from the fastest of a few answers, which are not measured."""
    if isinstance(scenario, Server):
        return scenario.target_qps
    if isinstance(scenario, Offline) and scenario.expected_per_s is not None:
        return scenario.expected_per_s
    if not scenario.min_seconds:
        return 1.0
    size = {MultiStream: "samples_per_query", Offline: "batch_size"}.get(type(scenario))
    count = getattr(scenario, size) if size else 1
    fastest_s = _fastest_s(answer, [index % rows for index in range(count)])
    return _SLACK * (count if isinstance(scenario, Offline) else 1) / fastest_s


def _fastest_s(answer: Answer, indices: list[int]) -> float:
    end = time.perf_counter() + _CALIBRATION_S
    times: list[float] = []
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        answer(indices)
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-6)
