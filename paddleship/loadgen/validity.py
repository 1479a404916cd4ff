"""Why a run is not valid, as text, for both engines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paddleship.loadgen.scenarios import Offline, Scenario, Server, SingleStream
from paddleship.loadgen.stopping import needed, percentile_of
from paddleship.reports.figures import beside, limit


@dataclass(frozen=True)
class Checks:
    """The conditions of a valid run, as found by the engine."""

    long_enough: bool
    enough_queries: bool
    confident: bool
    within_slo: bool = True
    unanswered: int = 0


def reasons(
    scenario: Scenario, checks: Checks, latencies_ms: Sequence[float], *, seconds: float, issue_delay_ms: float | None
) -> list[str]:
    """The conditions that failed, each with the next step; empty for a valid run."""
    queries, found = len(latencies_ms) + checks.unanswered, []
    if isinstance(scenario, Server):
        found += _server(scenario, checks, latencies_ms, issue_delay_ms or 0.0)
    if not checks.long_enough:
        remedy = "raise expected_per_s" if isinstance(scenario, Offline) else "raise max_seconds and max_queries, or lower min_seconds"
        found.append(f"it lasted {beside(seconds, scenario.min_seconds)} s, less than min_seconds {limit(scenario.min_seconds)}: {remedy}")
    if not checks.enough_queries:
        least = scenario.min_samples if isinstance(scenario, Offline) else scenario.min_queries
        found.append(f"it made {queries} of at least {least} queries: raise max_seconds and max_queries, or lower that minimum")
    if not checks.confident:
        found.append(_unsure(scenario, checks, queries, latencies_ms))
    return found


def _server(scenario: Server, checks: Checks, latencies_ms: Sequence[float], issue_delay_ms: float) -> list[str]:
    found = []
    if checks.unanswered:
        found.append(
            f"more than {scenario.max_waiting} queries waited at {scenario.target_qps:g} a second and {checks.unanswered} "
            "were given up: lower target_qps"
        )
    p99_ms = percentile_of(latencies_ms, 0.99) if latencies_ms else 0.0
    if not checks.within_slo:
        slow = p99_ms > scenario.slo_p99_ms
        seen = f"p99 was {beside(p99_ms, scenario.slo_p99_ms)} ms," if slow else "p99 with the unanswered queries was"
        found.append(f"{seen} over slo_p99_ms {limit(scenario.slo_p99_ms)}: lower target_qps")
    if found and issue_delay_ms > p99_ms / 2:
        found.append(
            f"the load generator sent queries up to {issue_delay_ms:.3g} ms late: the model holds Python's GIL, or this machine is too slow"
        )
    return found


def _unsure(scenario: Scenario, checks: Checks, queries: int, latencies_ms: Sequence[float]) -> str:
    if isinstance(scenario, Server):
        over = sum(latency > scenario.slo_p99_ms for latency in latencies_ms) + checks.unanswered
        return (
            f"{over} of {queries} queries took more than {limit(scenario.slo_p99_ms)} ms, too many to state with 99% confidence "
            "that p99 is within it: raise min_queries, or lower target_qps"
        )
    percentile = 0.9 if isinstance(scenario, SingleStream) else 0.99
    return f"p{100 * percentile:.0f} needs {needed(percentile)} queries (have {queries}): raise min_queries"
