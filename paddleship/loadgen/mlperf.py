"""The only module that uses MLPerf LoadGen: its settings, its callbacks, and the run.

Latencies are from LoadGen's trace, by its clock. A query is answered in its callback, in the calling thread. For Server, LoadGen runs in
a thread of its own and the calling thread is the worker, so that the thread that loaded a model always runs it.
"""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from paddleship.loadgen import mlperf_log
from paddleship.loadgen.scenarios import Answer, Measured, MultiStream, Offline, Scenario, Server, SingleStream
from paddleship.loadgen.workers import Complete, Direct, Queued

_LARGEST_SEED = 2**31


def unavailable() -> str:
    """Why LoadGen cannot be used here; empty if it can."""
    try:
        import mlperf_loadgen  # noqa: F401
    except ImportError as error:
        return f"mlcommons-loadgen cannot be imported ({error}): pip install mlcommons-loadgen, where it has a wheel for this platform"
    return ""


def run(scenario: Scenario, answer: Answer, *, rows: int, seed: int, expected_per_s: float) -> Measured:
    """Run one scenario with LoadGen. `expected_per_s` are queries (Offline: rows) per second, so that it generates enough."""
    complete = _completion()
    worker = Queued(scenario, answer, complete) if isinstance(scenario, Server) else Direct(scenario, answer, complete)
    with tempfile.TemporaryDirectory(prefix="paddleship-loadgen-") as folder:
        with _interrupts(worker.fail):
            worker.run(lambda: _start(scenario, worker, Path(folder), rows=rows, seed=seed, expected_per_s=expected_per_s))
        if worker.error is not None:
            raise worker.error
        return mlperf_log.read(
            Path(folder),
            scenario,
            engine=f"mlcommons-loadgen {version('mlcommons-loadgen')}",
            rows=rows,
            seed=seed,
            expected_per_s=expected_per_s,
            answered=worker.answered,
        )


def _start(scenario: Scenario, worker: Direct, folder: Path, *, rows: int, seed: int, expected_per_s: float) -> None:
    import mlperf_loadgen as lg

    sut = lg.ConstructSUT(worker.issue, worker.flush)
    library = lg.ConstructQSL(rows, rows, _ignore, _ignore)
    try:
        settings = _settings(scenario, seed=seed, expected_per_s=expected_per_s)
        # LoadGen reads an audit.config in the working directory, unless it gets another path
        lg.StartTestWithLogSettings(sut, library, settings, _log_settings(folder), str(folder / "audit.config"))
    finally:
        lg.DestroyQSL(library)
        lg.DestroySUT(sut)


def _settings(scenario: Scenario, *, seed: int, expected_per_s: float) -> Any:
    import mlperf_loadgen as lg

    settings = lg.TestSettings()
    settings.scenario = getattr(lg.TestScenario, type(scenario).__name__)
    settings.mode = lg.TestMode.PerformanceOnly
    settings.min_duration_ms = round(1000 * scenario.min_seconds)
    settings.min_query_count = scenario.min_samples if isinstance(scenario, Offline) else scenario.min_queries
    for number, name in enumerate(("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")):
        setattr(settings, name, (3 * seed + number) % _LARGEST_SEED)
    if isinstance(scenario, SingleStream | MultiStream):
        settings.max_query_count = scenario.max_queries or 0
        settings.max_duration_ms = round(1000 * (scenario.max_seconds or 0))
    if isinstance(scenario, SingleStream):
        settings.single_stream_expected_latency_ns = max(1, int(1e9 / expected_per_s))
    elif isinstance(scenario, MultiStream):
        settings.multi_stream_samples_per_query = scenario.samples_per_query
        settings.multi_stream_expected_latency_ns = max(1, int(1e9 / expected_per_s))
    elif isinstance(scenario, Offline):
        settings.offline_expected_qps = expected_per_s
    else:
        settings.server_target_qps = scenario.target_qps
        settings.server_target_latency_ns = round(1e6 * scenario.slo_p99_ms)
        settings.server_max_async_queries = scenario.max_waiting
    return settings


def _log_settings(folder: Path) -> Any:
    import mlperf_loadgen as lg

    output = lg.LogOutputSettings()
    output.outdir = str(folder)
    output.copy_summary_to_stdout = False
    settings = lg.LogSettings()
    settings.log_output = output
    settings.enable_trace = True  # the only output with every latency
    return settings


def _completion() -> Complete:
    import mlperf_loadgen as lg

    def complete(samples: Sequence[Any]) -> None:
        lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, 0, 0) for sample in samples])

    return complete


def _ignore(_indices: Sequence[int]) -> None:
    """A callback that does nothing: all rows are in memory."""


@contextmanager
def _interrupts(fail: Callable[[BaseException], None]) -> Iterator[None]:
    """Turn Ctrl-C into a failure of the run; raised inside a callback, it would end the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: fail(KeyboardInterrupt()))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
