import os
import time

import numpy as np
import pytest

from paddleship import benchmarking
from paddleship.benchmarking import Measurement
from paddleship.params import Benchmark

SETTINGS = Benchmark(batch_sizes=[1, 4], blocks=6, samples_per_block=20, max_seconds=3, timeout_s=20)
BATCHES = {size: [{"x": np.zeros((size, 2), np.float32)}] for size in (1, 4)}


class Sleeper:
    def __init__(self, seconds):
        self.seconds = seconds

    def run(self, inputs):
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            pass
        return inputs


class Mortal(Sleeper):
    def run(self, inputs):
        if len(inputs["x"]) == 4:
            os.abort()
        return super().run(inputs)


def load_broken():
    raise RuntimeError("no such file")


def test_the_slower_one_is_found_slower_by_its_factor():
    found = benchmarking.compare({"slow": (Sleeper, (0.002,)), "fast": (Sleeper, (0.0005,))}, BATCHES, SETTINGS, thread_count=1)
    ratio, low, high = benchmarking.ratio_interval(found["slow"], found["fast"], 1)
    assert low <= ratio <= high
    assert 2 < ratio < 6
    assert found["slow"].peak_memory_bytes > 1e6
    assert found["fast"].throughput_per_s(4) > found["slow"].throughput_per_s(4)


def test_one_that_dies_is_a_row_and_the_others_are_measured():
    contestants = {"mortal": (Mortal, (0.0001,)), "broken": (load_broken, ()), "well": (Sleeper, (0.0001,))}
    found = benchmarking.compare(contestants, BATCHES, SETTINGS, thread_count=1)
    assert "SIGABRT" in found["mortal"].reason
    assert not found["mortal"].blocks
    assert "no such file" in found["broken"].reason
    assert not found["well"].reason
    assert len(found["well"].blocks[4]) == SETTINGS.blocks


def test_the_time_budget_bounds_the_samples():
    started = time.monotonic()
    tight = Benchmark(batch_sizes=[1], blocks=4, samples_per_block=1000, max_seconds=1, timeout_s=20)
    found = benchmarking.compare({"slow": (Sleeper, (0.01,))}, {1: BATCHES[1]}, tight, thread_count=1)
    assert time.monotonic() - started < 15
    assert len(found["slow"].blocks[1][0]) < 100


@pytest.mark.parametrize(
    ("count", "stated"),
    [
        (4, set()),
        (5, {"p50_ms"}),
        (64, {"p50_ms", "p90_ms"}),
        (130, {"p50_ms", "p90_ms", "p95_ms"}),
        (662, {"p50_ms", "p90_ms", "p95_ms", "p99_ms"}),
    ],
)
def test_no_percentile_from_too_few_samples(count, stated):
    measurement = Measurement("x", blocks={1: [[1.0] * count]})
    assert {key for key, value in measurement.percentiles(1).items() if value is not None} == stated


def test_raw_samples_are_kept(tmp_path):
    from pyarrow import parquet

    benchmarking.write_samples({"x": Measurement("x", blocks={1: [[1.0, 2.0], [3.0]]})}, tmp_path / "samples.parquet")
    table = parquet.read_table(tmp_path / "samples.parquet")
    assert table["latency_ms"].to_pylist() == [1.0, 2.0, 3.0]
    assert table["block"].to_pylist() == [0, 0, 1]
