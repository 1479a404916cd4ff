"""The same scenarios without LoadGen, for platforms without a wheel of it: by the monotonic clock, in one thread.

Definitions and end conditions are LoadGen's; random rows and times differ, so a run is similar and never the same. Server queries are due
at random times that were drawn before, and count as arrived when they are due, so that no second thread disturbs the worker.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from paddleship.loadgen.scenarios import Answer, Measured, MultiStream, Offline, Scenario, Server, SingleStream
from paddleship.loadgen.stopping import estimate, needed, percentile_of, tolerated
from paddleship.loadgen.validity import Checks, reasons

_OFFLINE_SLACK = 1.1  # LoadGen generates this much more than the expected rate needs


@dataclass
class _Seen:
    """`lasted_s` is compared with `min_seconds`: the time of the last issue, or (Offline) of the last answer."""

    latencies_s: list[float] = field(default_factory=list)
    delays_s: list[float] = field(default_factory=list)
    answered: int = 0
    seconds: float = 0
    lasted_s: float = 0
    unanswered: int = 0


def run(scenario: Scenario, answer: Answer, *, rows: int, seed: int, expected_per_s: float) -> Measured:
    """Run one scenario; the arguments are those of the LoadGen engine."""
    chance = random.Random(seed)  # noqa: S311 (a load, no secret)
    order = chance.sample(range(rows), rows)
    if isinstance(scenario, Server):
        seen = _serve(scenario, answer, order, chance)
    elif isinstance(scenario, Offline):
        seen = _answer_all(scenario, answer, order, expected_per_s)
    else:
        seen = _answer_in_turn(scenario, answer, order, chance)
    latencies_ms = [1000 * latency for latency in seen.latencies_s]
    server = isinstance(scenario, Server)
    delay_ms = 1000 * percentile_of(seen.delays_s or [0.0], 0.99) if server else None
    found = reasons(scenario, _checks(scenario, seen, latencies_ms), latencies_ms, seconds=seen.seconds, issue_delay_ms=delay_ms)
    return Measured(
        engine="plain",
        scenario=scenario,
        rows=rows,
        seed=seed,
        latencies_ms=tuple(latencies_ms),
        seconds=seen.seconds,
        throughput_per_s=seen.answered / seen.seconds if seen.seconds else 0.0,
        reasons=tuple(found),
        early_stopping_ms=_stated(scenario, latencies_ms),
        expected_per_s=expected_per_s,
        scheduled_per_s=(len(latencies_ms) + seen.unanswered - 1) / seen.lasted_s if server and seen.lasted_s else None,
        issue_delay_p99_ms=delay_ms,
        unanswered=seen.unanswered,
    )


def _answer_in_turn(scenario: SingleStream | MultiStream, answer: Answer, order: list[int], chance: random.Random) -> _Seen:
    seen = _Seen()
    size = scenario.samples_per_query if isinstance(scenario, MultiStream) else 1
    start = time.perf_counter()
    while not _ended(scenario, len(seen.latencies_s), seen.lasted_s):
        first = chance.randrange(len(order))
        indices = [order[(first + place) % len(order)] for place in range(size)]
        issued = time.perf_counter()
        answer(indices)
        done = time.perf_counter()
        seen.latencies_s.append(done - issued)
        seen.lasted_s, seen.seconds = issued - start, done - start
    seen.answered = size * len(seen.latencies_s)
    return seen


def _ended(scenario: SingleStream | MultiStream, queries: int, lasted_s: float) -> bool:
    if queries >= scenario.min_queries and lasted_s >= scenario.min_seconds:
        return True
    return queries >= (scenario.max_queries or queries + 1) or lasted_s > (scenario.max_seconds or lasted_s)


def _answer_all(scenario: Offline, answer: Answer, order: list[int], expected_per_s: float) -> _Seen:
    seen = _Seen()
    samples = max(scenario.min_samples, int(_OFFLINE_SLACK * scenario.min_seconds * expected_per_s))
    indices = [order[place % len(order)] for place in range(samples)]
    start = time.perf_counter()
    for first in range(0, samples, scenario.batch_size):
        batch = indices[first : first + scenario.batch_size]
        answer(batch)
        seen.latencies_s += [time.perf_counter() - start] * len(batch)
    seen.answered, seen.seconds = samples, seen.latencies_s[-1]
    seen.lasted_s = seen.seconds
    return seen


def _serve(scenario: Server, answer: Answer, order: list[int], chance: random.Random) -> _Seen:
    due = list(_arrivals(scenario, chance))
    rows = [chance.choice(order) for _ in due]
    seen, arrived, idle = _Seen(), 0, False
    start = time.perf_counter()
    while seen.answered < len(due):
        now = time.perf_counter() - start
        if (wait := due[seen.answered] - now) > 0:
            time.sleep(wait)
            idle = True
            continue
        if idle:
            seen.delays_s.append(now - due[seen.answered])
            idle = False
        while arrived < len(due) and due[arrived] <= now:
            arrived += 1
        if arrived - seen.answered > scenario.max_waiting:
            break
        batch = slice(seen.answered, min(arrived, seen.answered + scenario.batch_size))
        answer(rows[batch])
        done = time.perf_counter() - start
        seen.latencies_s += [done - time_due for time_due in due[batch]]
        seen.answered, seen.seconds = batch.stop, done
    seen.unanswered, seen.lasted_s = arrived - seen.answered, due[arrived - 1]
    return seen


def _arrivals(scenario: Server, chance: random.Random) -> Iterator[float]:
    """Times at which queries are due, in seconds: a Poisson process until both minima are reached."""
    time_due, count = 0.0, 0
    while True:
        yield time_due
        count += 1
        if time_due >= scenario.min_seconds and count >= scenario.min_queries:
            return
        time_due += chance.expovariate(scenario.target_qps)


def _checks(scenario: Scenario, seen: _Seen, latencies_ms: list[float]) -> Checks:
    queries = len(latencies_ms) + seen.unanswered
    least = scenario.min_samples if isinstance(scenario, Offline) else scenario.min_queries
    within_slo = confident = True
    if isinstance(scenario, Server):
        over = sum(latency > scenario.slo_p99_ms for latency in latencies_ms) + seen.unanswered
        within_slo, confident = over < queries - int(0.99 * queries), over <= tolerated(queries, 0.99)
    elif isinstance(scenario, SingleStream | MultiStream):
        confident = queries >= needed(0.9 if isinstance(scenario, SingleStream) else 0.99)
    return Checks(
        long_enough=seen.lasted_s >= scenario.min_seconds,
        enough_queries=queries >= least,
        confident=confident,
        within_slo=within_slo,
        unanswered=seen.unanswered,
    )


def _stated(scenario: Scenario, latencies_ms: list[float]) -> dict[str, float]:
    percentiles = {SingleStream: (0.9, 0.99), MultiStream: (0.99,)}.get(type(scenario), ())
    estimates = {f"p{100 * percentile:.0f}_ms": estimate(latencies_ms, percentile) for percentile in percentiles}
    return {name: value for name, value in estimates.items() if value is not None}
