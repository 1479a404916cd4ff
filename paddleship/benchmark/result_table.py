"""The result table of a benchmark: one flat row per participant with the same keys and units in their names, and curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paddleship.benchmark.comparison import Comparison
from paddleship.benchmark.sampling import Measurement
from paddleship.config.sections.benchmark import Benchmark
from paddleship.reports.statuses import Status
from paddleship.shipped.computing.preprocess import Batch
from paddleship.shipped.computing.runtimes import registry
from paddleship.statistics import estimates
from paddleship.system import environment


def row(comparison: Comparison, name: str, settings: Benchmark, *, file_bytes: int) -> dict[str, Any]:
    """All measurements of one participant; None for what was not measured."""
    measurement, size = comparison.measurements[name], comparison.size
    speedup, growth = comparison.speedup(name), measurement.growth()
    rates = typical_rates(measurement)
    knee = estimates.knee(rates, gain=settings.knee_gain)
    status, reason = _status(measurement, size)
    return {
        "status": status,
        "reason": reason,
        **measurement.percentiles(size),
        "throughput_per_s": max(
            (rate for each in measurement.counted if (rate := measurement.throughput_per_s(each)) is not None), default=None
        ),
        "speedup": speedup.value if speedup else None,
        "speedup_low": speedup.low if speedup else None,
        "speedup_high": speedup.high if speedup else None,
        "difference": comparison.difference(name),
        "load_ms": _median(measurement.load_ms),
        "first_call_ms": _median(measurement.first_call_ms),
        "new_shape_ms": _median(measurement.new_shape_ms),
        "cold_start_ms": _median(measurement.cold_start_ms),
        "peak_memory_bytes": measurement.peak_memory_bytes,
        "peak_device_memory_bytes": measurement.peak_device_memory_bytes,
        "memory_growth_bytes_per_1000": growth.value if growth else None,
        "memory_growth_bytes_per_1000_low": growth.low if growth else None,
        "memory_growth_bytes_per_1000_high": growth.high if growth else None,
        "file_bytes": file_bytes,
        "knee_batch_size": knee,
        "knee_throughput_per_s": rates[knee] if knee else None,
        "best_concurrency": max(measurement.rates, key=measurement.rates.__getitem__) if measurement.rates else None,
        "concurrent_throughput_per_s": max(measurement.rates.values(), default=None),
        "samples": len(measurement.samples(size)),
        "unstable_warmups": measurement.unstable_warmups,
        "winner": False,
    }


def curves(comparison: Comparison, batches: Mapping[int, Sequence[Batch]]) -> dict[str, Any]:
    """For each participant: latency and throughput by batch size, latency by length at the first size, throughput by processes."""
    return {
        name: {
            "batch_size": [
                {"batch_size": size, "p50_ms": measurement.percentiles(size)["p50_ms"], "throughput_per_s": rate}
                for size, rate in typical_rates(measurement).items()
            ],
            "length": [
                {"length": length, "p50_ms": p50, "samples": count}
                for length, p50, count in _by_length(measurement, batches[comparison.size], comparison.size)
            ],
            "concurrency": [{"processes": count, "throughput_per_s": rate} for count, rate in sorted(measurement.rates.items())],
        }
        for name, measurement in comparison.measurements.items()
    }


def facts(comparison: Comparison) -> dict[str, Any]:
    """How the benchmark was run."""
    aa_ratio = comparison.aa_ratio
    return {
        "baseline": comparison.baseline,
        "effect": comparison.effect,
        "aa_ratio_low": aa_ratio.low if aa_ratio else None,
        "aa_ratio_high": aa_ratio.high if aa_ratio else None,
        "starts": comparison.starts,
        "pinned": comparison.pinned,
        "other_load_share": round(comparison.others.busy_share, 4),
        "stolen_share": round(comparison.others.stolen_share, 4),
        "load_average": round(comparison.others.load_average, 2),
        "other_gpu_processes": comparison.others.gpu_processes,
        "memory": "resident size (RSS), summed over the process and its descendants, peak",
        "versions": environment.installed(registry.distributions()),
    }


def _status(measurement: Measurement, size: int) -> tuple[Status, str]:
    """The status of a participant; failed if it is too slow for a median in the available time."""
    samples, enough = len(measurement.samples(size)), estimates.ENOUGH["p50_ms"]
    if measurement.status != Status.MEASURED or samples >= enough:
        return measurement.status, measurement.reason
    return Status.FAILED, f"a median needs {enough} samples (have {samples}): raise benchmark.max_seconds"


def typical_rates(measurement: Measurement) -> dict[int, float]:
    """Rows per second at the median latency, by batch size; a single disturbed block does not change it."""
    return {size: 1000 * size / p50 for size in sorted(measurement.counted) if (p50 := measurement.percentiles(size)["p50_ms"])}


def _by_length(measurement: Measurement, batches: Sequence[Batch], size: int) -> list[tuple[int, float, int]]:
    """Length, median and number of samples, if batches differ in length: the second dimension of the first input in which it varies."""
    lengths = _lengths(batches)
    groups: dict[int, list[float]] = {}
    for block in measurement.counted.get(size, ()):
        for index, ms in zip(block.batches, block.samples, strict=True):
            groups.setdefault(lengths[index], []).append(ms)
    known = {length: samples for length, samples in sorted(groups.items()) if len(samples) >= estimates.ENOUGH["p50_ms"]}
    return [(length, float(np.median(samples)), len(samples)) for length, samples in known.items()] if len(known) > 1 else []


def _lengths(batches: Sequence[Batch]) -> list[int]:
    of_inputs = [[batch[name].shape[1] for batch in batches] for name, array in batches[0].items() if array.ndim > 1]
    return next((lengths for lengths in of_inputs if len(set(lengths)) > 1), [0] * len(batches))


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None
