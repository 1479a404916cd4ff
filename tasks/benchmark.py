"""benchmark: eager, to_static and every proven candidate, side by side; the choice of the winner."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from paddleship import benchmarking, dataset, eager, footprint, pictures, runtimes, selection
from paddleship.candidate import Candidate
from paddleship.files import new_folder, read_json
from paddleship.params import Params
from paddleship.preprocess import Batch
from paddleship.report import Report
from paddleship.verdict import Check, Verdict
from tasks.stage import main

_ROWS = 64  # distinct real rows that each contestant answers in turn


def benchmark(params: Params) -> Report:
    """Measure latency, throughput, memory and load time on real rows, and choose by select.objective."""
    proven = read_json(Path(params.paths.parity) / "passed.json", stage="verify")
    contestants: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "eager": (eager.load, (eager.Subject.of(params),)),
        "to_static": (eager.load_static, (eager.Subject.of(params),)),
        **{name: (runtimes.load, (Path(params.paths.candidates) / name,)) for name in proven},
    }
    batches = _batches(params)
    found = benchmarking.compare(contestants, batches, params.benchmark, thread_count=params.optimize.threads)
    table = {name: _row(measurement, params) for name, measurement in found.items()}
    for name, row in table.items():
        row |= proven.get(name) or {"precision": "float32", "metric": _eagers(next(iter(proven.values())))}
        row["image_bytes"] = _image_bytes(params, name) if name in proven else None
    measured = {name: table[name] for name in proven if table[name]["status"] == "measured"}

    folder = Path(params.paths.benchmark)
    checks = [
        Check.at_least(
            "measured_candidates", len(measured), 1, advice="no proven candidate survived the benchmark: see the reasons in the report"
        ),
        Check.at_least(
            "measured_baseline",
            int(table["eager"]["status"] == "measured"),
            1,
            advice="eager could not be measured, so nothing can be compared",
        ),
    ]
    if not all(check.passed for check in checks):
        return Report(stage="benchmark", headline="nothing to choose from", verdict=Verdict(checks=checks), candidates=table)
    size = params.benchmark.batch_sizes[0]
    choice = selection.choose(
        measured,
        params.select,
        compare=lambda one, other: benchmarking.ratio_interval(found[one], found[other], size),
        eager=table["eager"],
    )
    if choice.candidate is None:
        return Report(stage="benchmark", headline=choice.reason, verdict=Verdict(checks=[*checks, *choice.checks]), candidates=table)
    winner = found[choice.candidate]
    chosen = table[choice.candidate]
    speedup, low, high = benchmarking.ratio_interval(found["eager"], winner, size)
    for row in table.values():
        row["winner"] = row is chosen
    with new_folder(folder) as beside:
        benchmarking.write_samples(found, beside / "samples.parquet")
        decision = {"candidate": choice.candidate, "reason": choice.reason, "speedup": speedup, "speedup_low": low, "speedup_high": high}
        (beside / "choice.json").write_text(json.dumps(decision, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    shown = {name: row for name, row in table.items() if row["status"] == "measured"}
    return Report(
        stage="benchmark",
        headline=f"{choice.candidate}: {speedup:.1f}× eager (95% interval {low:.1f} to {high:.1f}), p50 {chosen['p50_ms']:.3g} ms",
        metrics={
            "speedup": speedup,
            "speedup_low": low,
            "speedup_high": high,
            **{key: chosen[key] for key in _NUMBERS if chosen[key] is not None},
            "eager_p50_ms": table["eager"]["p50_ms"],
        },
        verdict=Verdict(checks=checks),
        candidates=table,
        facts={
            "winner": choice.candidate,
            "chosen_by": choice.metric,
            "reason": choice.reason,
            "took_no_part": choice.refused,
            "threads": params.optimize.threads,
            "loop": "closed",
            "batch_size": size,
        },
        pictures=_draw(shown, choice.candidate, params),
    )


_NUMBERS = ("p50_ms", "p90_ms", "p95_ms", "p99_ms", "throughput_per_s", "load_ms", "first_call_ms", "peak_memory_bytes")


def _row(measurement: benchmarking.Measurement, params: Params) -> dict[str, Any]:
    sizes = params.benchmark.batch_sizes
    rates = [rate for size in sizes if (rate := measurement.throughput_per_s(size)) is not None]
    return {
        "status": "failed" if measurement.reason else "measured",
        "reason": measurement.reason,
        **measurement.percentiles(sizes[0]),
        "throughput_per_s": max(rates, default=None),
        "cost_per_million": _price(params) / max(rates) if rates else None,
        "load_ms": measurement.load_ms,
        "first_call_ms": measurement.first_call_ms,
        "peak_memory_bytes": measurement.peak_memory_bytes,
        "samples": sum(len(block) for block in measurement.blocks.get(sizes[0], [])),
        "winner": False,
    }


def _price(params: Params) -> float:
    """Of a million seconds on the cores that a candidate may use."""
    return params.select.price_per_core_hour * params.optimize.threads / 3600 * 1e6


def _eagers(candidate: dict[str, Any]) -> float | None:
    """What eager itself scores: what a candidate does, and what that lost."""
    return None if candidate["metric"] is None else candidate["metric"] + candidate["metric_drop"]


def _image_bytes(params: Params, name: str) -> int | None:
    folder = Path(params.paths.candidates) / name
    return footprint.image_bytes(Path("docker/requirements") / f"{Candidate.load(folder).runtime}.txt", folder)


def _draw(rows: dict[str, dict[str, Any]], winner: str, params: Params) -> list[str]:
    reports = Path(params.paths.reports)
    drawn = [pictures.latency(rows, winner, reports, "benchmark/latency.png")]
    scored = {name: row for name, row in rows.items() if row["metric"] is not None}
    if winner in scored:
        quality = "accuracy" if params.data.task == "classification" else "R²"
        drawn.append(pictures.pareto(scored, winner, quality, reports, "benchmark/pareto.png"))
    return drawn


def _batches(params: Params) -> dict[int, list[Batch]]:
    """Batches of real test rows, as many rows in each size, so that all sizes see the same lengths."""
    preprocess, _, _ = dataset.read_preprocess(Path(params.paths.prepared))
    rows = dataset.read(Path(params.paths.prepared), "test")
    examples = dataset.encode(preprocess, rows.take(range(min(_ROWS, len(rows)))))
    batches = {}
    for size in params.benchmark.batch_sizes:
        cycled = [examples[index % len(examples)] for index in range(max(size, len(examples) // size * size))]
        batches[size] = [preprocess.collate(cycled[start : start + size]) for start in range(0, len(cycled), size)]
    return batches


if __name__ == "__main__":
    main(benchmark)
