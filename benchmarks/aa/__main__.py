"""`make aa-bench`: check the benchmark with known cases: a model against itself, and against itself made 10% slower.

Every repetition measures the model, the same model again, and the slower one, in ONNX Runtime at about a millisecond. Prints a table
and, as the last line, its figures as JSON; exits 3 if a goal is missed. `SHORT=1` is the form for CI: one shorter repetition. Other load
makes a repetition longer; it must not take more than a minute.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.aa import model
from paddleship.benchmark import benchmarking
from paddleship.benchmark.sampling import paired
from paddleship.config.sections.benchmark import Benchmark
from paddleship.shipped.computing import runtimes
from paddleship.shipped.computing.paddle_logs import silence_paddle
from paddleship.statistics import estimates
from paddleship.statistics.estimates import Difference
from paddleship.system import host
from paddleship.system.isolate import Factory

_RACES, _SLOWDOWN, _LIMIT_S = 20, 0.1, 60.0
_SETTINGS = Benchmark(
    batch_sizes=[1], concurrency=[], starts=3, blocks=120, samples_per_block=12, warmup_s=0.5, max_seconds=50, timeout_s=60
)

_SHORT = _SETTINGS.model_copy(update={"starts": 2, "blocks": 60, "max_seconds": 20})


@dataclass(frozen=True)
class Repetition:
    """One repetition: both results with intervals, the A/A ratio, starts, seconds, share of other load, and A/A ratios by start."""

    same: str
    slowed: str
    intervals: tuple[estimates.Interval, estimates.Interval, estimates.Interval]
    starts: int
    seconds: float
    busy_share: float
    by_start: list[list[float]]
    p50_ms: float


def main() -> None:
    silence_paddle()
    short = bool(os.environ.get("SHORT"))
    print(HEADER)
    repetitions = []
    with tempfile.TemporaryDirectory() as work:
        folder = model.make(Path(work) / "model")
        for _ in range(1 if short else _RACES):
            repetitions.append(repeat(folder, _SHORT if short else _SETTINGS))
            print(line(repetitions[-1]), flush=True)
    figures = summary(repetitions)
    print(json.dumps(figures | {"host": host.fingerprint()}))
    sys.exit(0 if met(figures) else 3)


def repeat(folder: Path, settings: Benchmark) -> Repetition:
    participants: dict[str, Factory] = {
        "model": (runtimes.load, (folder,)),
        "same": (runtimes.load, (folder,)),
        "slowed": (model.load_slowed, (folder, _SLOWDOWN)),
    }
    start = time.monotonic()
    comparison = benchmarking.compare(participants, model.batches(), settings, thread_count=1)
    taken = time.monotonic() - start
    found, aa_ratio = comparison.measurements, comparison.aa_ratio
    same, slowed = comparison.speedup("same"), comparison.speedup("slowed")
    if not (aa_ratio and same and slowed):
        raise SystemExit("; ".join(each.reason for each in found.values() if each.reason))
    by_start = [*paired(found["model"], found["same"], 1), *paired(found["model"], comparison.again, 1)]
    verdicts = [str(comparison.difference(name)) for name in ("same", "slowed")]
    p50 = float(np.median(found["model"].samples(1)))
    return Repetition(*verdicts, (same, slowed, aa_ratio), comparison.starts, taken, comparison.others.busy_share, by_start, p50)


HEADER = f"{'the same':36} {'10% slower':36} {'A/A ratio':18} {'starts':>6} {'seconds':>7} {'other load':>10} {'p50 ms':>7}"


def line(found: Repetition) -> str:
    same, slowed, aa_ratio = found.intervals
    return (
        f"{f'{found.same} {_show(same)}':36} {f'{found.slowed} {_show(slowed)}':36} {f'{aa_ratio.low:.3f} to {aa_ratio.high:.3f}':18} "
        f"{found.starts:6} {found.seconds:7.1f} {found.busy_share:10.0%} {found.p50_ms:7.3f}"
    )


def summary(repetitions: Sequence[Repetition]) -> dict[str, float | int]:
    """Counts, times, and the spread of the A/A ratio within a pair of processes and between pairs."""
    starts = [start for each in repetitions for start in each.by_start if len(start) > 1]
    medians = np.array([np.median(start) for start in starts])
    widths = np.array([1.4826 * np.median(np.abs(start - np.median(start))) for start in starts])  # robust against disturbed blocks
    errors = 1.2533 * widths / np.array([len(start) for start in starts]) ** 0.5  # of the median of normally distributed values
    between = float(np.var(medians, ddof=1) - np.mean(errors**2))
    return {
        "repetitions": len(repetitions),
        "same_cannot_tell": sum(each.same == Difference.CANNOT_TELL for each in repetitions),
        "same_cannot_tell_goal": int(np.ceil(0.95 * len(repetitions))),
        "slowed_worse": sum(each.slowed == Difference.WORSE for each in repetitions),
        "slowed_worse_goal": int(np.ceil(0.95 * len(repetitions))),
        "longest_s": round(max(each.seconds for each in repetitions), 1),
        "longest_s_goal": _LIMIT_S,
        "median_s": round(float(np.median([each.seconds for each in repetitions])), 1),
        "slowed_ratio_median": round(float(np.median([each.intervals[1].value for each in repetitions])), 4),
        "same_half_width_median": round(
            float(np.median([(each.intervals[0].high - each.intervals[0].low) / 2 for each in repetitions])), 4
        ),
        "same_interval_holds_1": sum(each.intervals[0].low <= 1 <= each.intervals[0].high for each in repetitions),
        "block_spread": round(float(np.median(widths)), 4),
        "pair_of_processes_spread": round(float(np.std(medians, ddof=1)), 4),
        "between_processes_spread": round(max(0.0, between) ** 0.5, 4),
        "other_load_share_median": round(float(np.median([each.busy_share for each in repetitions])), 3),
        "p50_ms": round(float(np.median([each.p50_ms for each in repetitions])), 3),
    }


def met(figures: dict[str, float | int]) -> bool:
    right = all(figures[name] >= figures[f"{name}_goal"] for name in ("same_cannot_tell", "slowed_worse"))
    return right and figures["longest_s"] <= figures["longest_s_goal"]


def _show(interval: estimates.Interval) -> str:
    return f"{interval.value:.3f} ({interval.low:.3f} to {interval.high:.3f})"


if __name__ == "__main__":
    main()
