import time

import pytest

from paddleship import benchmarking, loadgen
from paddleship.loadgen import stopping
from paddleship.loadgen.scenarios import SingleStream

ROWS = 40


class Busy:
    """Answers by computing for a known time a row, and remembers what it was asked."""

    def __init__(self, ms=0.1):
        self.ms, self.calls = ms, []

    def __call__(self, indices):
        self.calls.append(list(indices))
        end = time.perf_counter() + self.ms * len(indices) / 1000
        while time.perf_counter() < end:
            pass


@pytest.mark.parametrize(("percentile", "name"), [(0.9, "p90_ms"), (0.95, "p95_ms"), (0.99, "p99_ms")])
def test_a_percentile_needs_as_many_queries_as_the_benchmark_asks_for(percentile, name):
    assert stopping.needed(percentile) == benchmarking.ENOUGH[name]


def test_a_single_stream_asks_for_one_row_after_the_other():
    busy = Busy()
    found = loadgen.run(SingleStream(min_queries=662), busy, rows=ROWS, seed=1)
    assert found.valid
    assert len(found.latencies_ms) == len(busy.calls) == 662
    assert min(found.latencies_ms) >= busy.ms
    assert set(found.early_stopping_ms) == {"p90_ms", "p99_ms"}
