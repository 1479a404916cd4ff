"""What LoadGen wrote of a run: its verdict from the detail log, every latency from the trace."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from paddleship.errors import Unavailable
from paddleship.loadgen.scenarios import Measured, MultiStream, Scenario, Server
from paddleship.loadgen.stopping import percentile_of
from paddleship.loadgen.validity import Checks, reasons

_SAMPLE = re.compile(
    r'"ts":([\d.]+),"args":\{"sample_seq":(\d+),"query_seq":(\d+),"sample_idx":\d+,"issue_start_ns":(-?\d+),"complete_ns":(\d+)\}'
)
Sample = tuple[float, int, float, float]
"""Start, number of its query, delay of its issue, latency; seconds."""


def read(folder: Path, scenario: Scenario, *, engine: str, rows: int, seed: int, expected_per_s: float, answered: int) -> Measured:
    """Measured, from the logs in `folder`. Raises Unavailable when LoadGen left no result."""
    detail = _detail(folder / "mlperf_log_detail.txt")
    if "result_validity" not in detail:
        raise Unavailable(f"LoadGen left no result ({detail.get('error_invalid_config', 'its log ends early')}): run the benchmark again")
    samples = _samples(folder / "mlperf_log_trace.json")
    seconds = max(start + latency for start, _, _, latency in samples) - min(start for start, *_ in samples)
    latencies_ms = _latencies_ms(samples[:answered], by_query=isinstance(scenario, MultiStream))
    unanswered = len(samples) - answered
    delay_ms = 1000 * percentile_of([delay for _, _, delay, _ in samples], 0.99) if isinstance(scenario, Server) else None
    found = Measured(
        engine=engine,
        scenario=scenario,
        rows=rows,
        seed=seed,
        latencies_ms=latencies_ms,
        seconds=seconds,
        throughput_per_s=answered / seconds,
        reasons=reasons(scenario, _checks(detail, unanswered), latencies_ms, seconds=seconds, issue_delay_ms=delay_ms),
        early_stopping_ms=_stated(detail),
        expected_per_s=expected_per_s,
        scheduled_per_s=detail.get("result_scheduled_samples_per_sec"),
        issue_delay_p99_ms=delay_ms,
        unanswered=unanswered,
    )
    if found.valid != (detail["result_validity"] == "VALID"):
        raise Unavailable(
            f"LoadGen calls the run {detail['result_validity']}, paddleship reads its checks otherwise: report it as a defect"
        )
    return found


def _detail(path: Path) -> dict[str, Any]:
    """The log's values by key; the last one where there are several."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line.removeprefix(":::MLLOG"))
        except ValueError:
            continue  # it writes infinity, a rate over no time, as no JSON does
        found[entry["key"]] = entry["value"]
    return found


def _checks(detail: dict[str, Any], unanswered: int) -> Checks:
    return Checks(
        long_enough=detail["result_min_duration_met"],
        enough_queries=detail["result_min_queries_met"],
        confident=detail["early_stopping_met"],
        within_slo=detail.get("result_perf_constraints_met", True),
        unanswered=unanswered,
    )


def _stated(detail: dict[str, Any]) -> dict[str, float]:
    """Percentiles with confidence, in ms; LoadGen writes 0 for one that it does not state."""
    keys = {"p90_ms": "early_stopping_latency_ss", "p99_ms": "early_stopping_latency_ms"}
    return {name: detail[key] / 1e6 for name, key in keys.items() if detail.get(key)}


def _samples(path: Path) -> list[Sample]:
    """Every sample, in the order of issue."""
    found = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if (match := _SAMPLE.search(line)) is not None:
                start, sample, query, delay, latency = match.groups()
                found[int(sample)] = (float(start) / 1e6, int(query), int(delay) / 1e9, int(latency) / 1e9)
    return [found[sample] for sample in sorted(found)]


def _latencies_ms(samples: list[Sample], *, by_query: bool) -> list[float]:
    if not by_query:
        return [1000 * latency for *_, latency in samples]
    longest: dict[int, float] = {}
    for _, query, _, latency in samples:
        longest[query] = max(latency, longest.get(query, 0))
    return [1000 * longest[query] for query in sorted(longest)]
