"""Read LoadGen's logs of a run: the verdict from the detail log, every latency from the trace."""

from __future__ import annotations

import json
import re
from array import array
from pathlib import Path
from typing import Any

import numpy as np

from paddleship.errors import Unavailable
from paddleship.loadgen.scenarios import Measured, MultiStream, Scenario, Server
from paddleship.loadgen.stopping import percentile_of
from paddleship.loadgen.validity import Checks, reasons

_SAMPLE = re.compile(
    r'"ts":([\d.]+),"args":\{"sample_seq":(\d+),"query_seq":\d+,"sample_idx":\d+,"issue_start_ns":(-?\d+),"complete_ns":(\d+)\}'
)


def read(folder: Path, scenario: Scenario, *, engine: str, rows: int, seed: int, expected_per_s: float, answered: int) -> Measured:
    """The result from the logs in `folder`; only the first `answered` samples count. Raises Unavailable without a result."""
    detail = _detail(folder / "mlperf_log_detail.txt")
    if "result_validity" not in detail:
        raise Unavailable(f"LoadGen left no result ({detail.get('error_invalid_config', 'its log ends early')}): run the benchmark again")
    start_s, delay_ms, latency_ms = _samples(folder / "mlperf_log_trace.json")
    seconds = float(np.max(start_s + latency_ms / 1000) - np.min(start_s))
    kept_ms = latency_ms[:answered]
    if isinstance(scenario, MultiStream):
        kept_ms = kept_ms.reshape(-1, scenario.samples_per_query).max(axis=1)
    latencies_ms = kept_ms.tolist()
    unanswered = len(latency_ms) - answered
    late_ms = percentile_of(delay_ms.tolist(), 0.99) if isinstance(scenario, Server) else None
    found = Measured(
        engine=engine,
        scenario=scenario,
        rows=rows,
        seed=seed,
        latencies_ms=tuple(latencies_ms),
        seconds=seconds,
        throughput_per_s=answered / seconds,
        reasons=tuple(reasons(scenario, _checks(detail, unanswered), latencies_ms, seconds=seconds, issue_delay_ms=late_ms)),
        early_stopping_ms=_stated(detail),
        expected_per_s=expected_per_s,
        scheduled_per_s=detail.get("result_scheduled_samples_per_sec"),
        issue_delay_p99_ms=late_ms,
        unanswered=unanswered,
    )
    if not unanswered and found.valid != (detail["result_validity"] == "VALID"):
        raise Unavailable(
            f"LoadGen calls the run {detail['result_validity']}, but paddleship's own checks disagree: please report this defect"
        )
    return found


def _detail(path: Path) -> dict[str, Any]:
    """The log's values by key; the last one if a key occurs several times."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line.removeprefix(":::MLLOG"))
        except ValueError:
            continue  # it writes infinity, a rate over no time, as invalid JSON
        found[entry["key"]] = entry["value"]
    return found


def _samples(path: Path) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Start in seconds, delay of issue and latency in ms of every sample, in the order of issue."""
    found = array("d")
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if (match := _SAMPLE.search(line)) is not None:
                found.extend(map(float, match.groups()))
    table = np.array(found).reshape(-1, 4)
    table = table[np.argsort(table[:, 1])]
    return table[:, 0] / 1e6, table[:, 2] / 1e6, table[:, 3] / 1e6


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
