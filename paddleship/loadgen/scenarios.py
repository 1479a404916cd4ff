"""The scenarios of MLPerf Inference, and the result of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from paddleship.errors import ParamsError

Answer = Callable[[Sequence[int]], Any]
"""Answers the rows of the test set that have these indices; what it returns is not looked at."""


@dataclass(frozen=True)
class _Scenario:
    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = 0 if name == "min_seconds" else 1e-9
            if value is not None and not (isfinite(value) and value >= least):
                raise ParamsError(f"{type(self).__name__}.{name} must be a number {'>=' if not least else '>'} 0 (got {value!r})")

    @property
    def rows_at_once(self) -> int:
        """The largest number of rows in one call of the model."""
        return int(getattr(self, "samples_per_query", getattr(self, "batch_size", 1)))


@dataclass(frozen=True)
class SingleStream(_Scenario):
    """One query of one row at a time, the next one after the answer (closed loop); the latency of a single user.

    Ends when both minima are reached; at a maximum it ends without them and is not valid.
    """

    min_queries: int = 662
    max_queries: int | None = None
    min_seconds: float = 0
    max_seconds: float | None = None


@dataclass(frozen=True)
class MultiStream(_Scenario):
    """Like SingleStream, with queries of several rows; a latency is that of the whole query."""

    samples_per_query: int = 8
    min_queries: int = 662
    max_queries: int | None = None
    min_seconds: float = 0
    max_seconds: float | None = None


@dataclass(frozen=True)
class Offline(_Scenario):
    """All rows at once, answered in batches; the result is rows per second. A latency is a row's time since the start.

    `expected_per_s` determines how many rows fill `min_seconds`. It must not be below the true rate, otherwise the run is too short and not
    valid. None: it is estimated from a few batches.
    """

    batch_size: int = 1
    min_samples: int = 662
    min_seconds: float = 0
    expected_per_s: float | None = None


@dataclass(frozen=True)
class Server(_Scenario):
    """Queries of one row at random times (Poisson, `target_qps` on average), independent of earlier answers (open loop).

    One worker takes them in order, up to `batch_size` of those that wait at once. Latency counts from the time when a query was due.
    The run is valid if the 99th percentile is within `slo_p99_ms` with confidence. It ends early, not valid, if more queries wait
    than arrive in a second (or in four times the objective, if that is longer).
    """

    target_qps: float
    slo_p99_ms: float
    batch_size: int = 1
    min_queries: int = 662
    min_seconds: float = 0

    @property
    def max_waiting(self) -> int:
        return max(16, int(self.target_qps * max(1.0, 4 * self.slo_p99_ms / 1000)))


Scenario = SingleStream | MultiStream | Offline | Server


@dataclass(frozen=True)
class Measured:
    """The result of one run of a scenario, by the clock of its engine.

    `latencies_ms` has every query in the order of issue (Offline: every row). `reasons` say why a run is not valid. `early_stopping_ms` has
    only percentiles with confidence. For Server: `scheduled_per_s` is the requested load, `throughput_per_s` what was completed,
    `issue_delay_p99_ms` the delay of the engine itself, `unanswered` the queries that were given up because too many waited.
    """

    engine: str
    scenario: Scenario
    rows: int
    seed: int
    latencies_ms: tuple[float, ...]
    seconds: float
    throughput_per_s: float
    reasons: tuple[str, ...]
    early_stopping_ms: Mapping[str, float] = field(default_factory=dict)
    expected_per_s: float | None = None
    scheduled_per_s: float | None = None
    issue_delay_p99_ms: float | None = None
    unanswered: int = 0

    @property
    def valid(self) -> bool:
        return not self.reasons
