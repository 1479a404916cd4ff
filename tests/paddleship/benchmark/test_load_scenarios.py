"""The scenarios on a model in a process of its own: figures where it lives, the reason where it dies."""

import os
import time

import numpy as np
import pytest

from paddleship.benchmark import load_scenarios
from paddleship.benchmark.workload import Workload
from paddleship.config.sections.benchmark import Benchmark
from paddleship.shipped.computing.preprocess import build
from paddleship.shipped.computing.spec import TensorSpec

PREPROCESS = build({}, [TensorSpec("x", "float32", ("batch", 2))])
WORKLOAD = Workload(PREPROCESS, PREPROCESS.encode({"x": np.arange(40, dtype=np.float32).reshape(20, 2)}))
SETTINGS = Benchmark(scenario_seconds=0.5, max_seconds=4, timeout_s=20, batch_sizes=[1, 5])


class Busy:
    """Answers by computing for a while, as long for many rows as for one."""

    def __init__(self, seconds):
        self.seconds = seconds

    def run(self, inputs):
        assert inputs["x"].shape[1] == 2
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            pass
        return inputs


class Mortal(Busy):
    """Dies of the 50th query."""

    asked = 0

    def run(self, inputs):
        self.asked += 1
        if self.asked > 50:
            os.abort()
        return super().run(inputs)


def measure(load, **settings):
    settings = SETTINGS.model_copy(update=settings)
    return load_scenarios.measure("model", (load, (0.0002,)), WORKLOAD, settings=settings, thread_count=1, seed=0)


def test_every_scenario_has_its_figures_and_no_objective_is_searched_unasked():
    under_load = measure(Busy)
    assert under_load.engine
    assert 0.2 <= under_load.single_stream_p50_ms <= under_load.single_stream_p90_ms
    assert under_load.multi_stream_p50_ms >= 0.2
    assert under_load.offline_per_s > 0
    assert (under_load.peak_qps, under_load.peak_p99_ms, under_load.reason) == (None, None, "")
    assert under_load.checks(None) == []


def test_the_highest_load_within_the_objective_is_found():
    under_load = measure(Busy, slo_p99_ms=2000.0)
    (check,) = under_load.checks(2000.0)
    assert check.passed
    assert under_load.peak_qps > 10
    assert under_load.peak_p99_ms <= 2000


def test_an_objective_that_nothing_meets_fails_with_how_near_the_best_came():
    under_load = measure(Busy, slo_p99_ms=0.1)
    (check,) = under_load.checks(0.1)
    assert not check.passed
    assert check.measured > 0.1
    assert (check.name, check.limit) == ("peak_p99_ms", 0.1)
    assert "slo_p99_ms" in check.advice


@pytest.mark.parametrize("slo", [None, 5.0])
def test_a_model_that_dies_under_load_fails_with_its_signal(slo):
    under_load = measure(Mortal, slo_p99_ms=slo)
    (check,) = under_load.checks(slo)
    assert not check.passed
    assert "SIGABRT" in check.measured
    assert under_load.single_stream_p50_ms is None
