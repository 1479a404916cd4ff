import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from paddleship import loadgen
from paddleship.errors import CandidateError, ParamsError, Unavailable
from paddleship.loadgen import Measured, MultiStream, Offline, Server, SingleStream, peak, stopping
from paddleship.statistics import estimates
from paddleship.system.isolate import Isolated

ROWS = 40
UNREACHED_MS = 60_000
MISSING = loadgen.unavailable()
ENGINES = [pytest.param("mlperf", marks=pytest.mark.skipif(bool(MISSING), reason=MISSING)), "plain"]
SCENARIOS = [
    SingleStream(min_queries=100),
    MultiStream(samples_per_query=3, min_queries=100),
    Offline(batch_size=7, min_samples=100),
    Server(target_qps=500, slo_p99_ms=UNREACHED_MS, min_queries=100),
]


class Busy:
    """Answers by computing for a known time a row, and remembers what it was asked and how long that took."""

    def __init__(self, ms=0.1, fails_at=None, error=None):
        self.ms, self.fails_at, self.error = ms, fails_at, error
        self.calls, self.took_ms = [], []

    def __call__(self, indices):
        start = time.perf_counter()
        self.calls.append(list(indices))
        if len(self.calls) == self.fails_at:
            raise self.error
        while time.perf_counter() < start + self.ms * len(indices) / 1000:
            pass
        self.took_ms.append(1000 * (time.perf_counter() - start))


@pytest.fixture(params=ENGINES)
def run(request):
    def run(scenario, answer, *, rows=ROWS, seed=1):
        return loadgen.run(scenario, answer, rows=rows, seed=seed, engine=request.param)

    run.engine = request.param
    return run


@pytest.mark.parametrize(("percentile", "name"), [(0.9, "p90_ms"), (0.95, "p95_ms"), (0.99, "p99_ms")])
def test_a_percentile_needs_as_many_queries_as_the_benchmark_asks_for(percentile, name):
    assert stopping.needed(percentile) == estimates.ENOUGH[name]


def test_one_query_too_few_states_no_percentile():
    assert stopping.estimate(range(661), 0.99) is None
    assert stopping.estimate(range(662), 0.99) == 661


def test_a_single_stream_asks_for_one_row_after_the_other(run):
    busy = Busy()
    found = run(SingleStream(min_queries=662), busy)
    assert found.valid
    assert len(found.latencies_ms) == len(busy.calls) == 662
    assert {len(call) for call in busy.calls} == {1}
    assert {row for (row,) in busy.calls} == set(range(ROWS))
    assert set(found.early_stopping_ms) == {"p90_ms", "p99_ms"}
    assert found.early_stopping_ms["p90_ms"] == pytest.approx(stopping.estimate(found.latencies_ms, 0.9))
    assert 1000 / found.throughput_per_s >= busy.ms


def test_the_clock_of_the_engine_agrees_with_one_inside_the_answer(run):
    busy = Busy()
    found = run(SingleStream(min_queries=200), busy)
    assert all(theirs >= ours for theirs, ours in zip(found.latencies_ms, busy.took_ms, strict=True))
    assert sum(found.latencies_ms) >= sum(busy.took_ms)
    assert found.seconds * 1000 >= sum(found.latencies_ms)


def test_a_minimum_of_time_is_filled_with_queries(run):
    found = run(SingleStream(min_queries=10, min_seconds=0.3), Busy(ms=0.5))
    assert found.seconds >= 0.3
    assert not [reason for reason in found.reasons if "min_seconds" in reason]


@pytest.mark.parametrize("maximum", [{"max_queries": 50}, {"max_seconds": 0.05}])
def test_a_run_that_ends_at_its_maximum_says_what_it_lacks(run, maximum):
    found = run(SingleStream(min_queries=100_000, **maximum), Busy(ms=1))
    assert not found.valid
    assert len(found.latencies_ms) <= 60
    assert any("100000" in reason for reason in found.reasons)
    assert any("p90 needs 64 queries" in reason for reason in found.reasons)
    assert found.early_stopping_ms == {}


def test_a_multi_stream_has_a_latency_for_each_query_of_several_rows(run):
    busy = Busy(ms=0.05)
    found = run(MultiStream(samples_per_query=4, min_queries=662), busy)
    assert found.valid
    assert len(found.latencies_ms) == len(busy.calls) == 662
    assert {len(call) for call in busy.calls} == {4}
    assert all(theirs >= ours for theirs, ours in zip(found.latencies_ms, busy.took_ms, strict=True))
    assert found.throughput_per_s == pytest.approx(4 * 662 / found.seconds)
    assert set(found.early_stopping_ms) == {"p99_ms"}


def test_a_multi_stream_may_ask_for_more_rows_than_there_are(run):
    busy = Busy(ms=0.01)
    run(MultiStream(samples_per_query=7, min_queries=20), busy, rows=3)
    assert {len(call) for call in busy.calls} == {7}
    assert {row for call in busy.calls for row in call} == {0, 1, 2}


def test_offline_answers_all_rows_in_batches(run):
    busy = Busy(ms=0.05)
    found = run(Offline(batch_size=7, min_samples=2 * ROWS + 3), busy)
    assert found.valid
    assert {len(call) for call in busy.calls[:-1]} == {7}
    assert sum(map(len, busy.calls)) == len(found.latencies_ms) == 2 * ROWS + 3
    assert set(Counter(row for call in busy.calls for row in call).values()) == {2, 3}
    assert list(found.latencies_ms) == sorted(found.latencies_ms)
    assert found.throughput_per_s == pytest.approx((2 * ROWS + 3) / found.seconds)


def test_offline_is_long_enough_by_its_own_calibration(run):
    found = run(Offline(batch_size=4, min_samples=1, min_seconds=0.2), Busy(ms=0.2))
    assert found.valid
    assert len(found.latencies_ms) >= 0.2 * found.expected_per_s


def test_offline_that_expects_too_little_is_too_short(run):
    found = run(Offline(min_samples=1, min_seconds=5, expected_per_s=2), Busy(ms=0.1))
    assert not found.valid
    assert "raise expected_per_s" in found.reasons[0]


def test_a_server_is_asked_at_random_times_whether_it_answers_or_not(run):
    busy = Busy(ms=0.2)
    found = run(Server(target_qps=1000, slo_p99_ms=UNREACHED_MS, min_queries=700), busy)
    assert found.valid
    assert len(found.latencies_ms) == len(busy.calls) == 700
    assert found.scheduled_per_s == pytest.approx(1000, rel=0.2)
    assert all(theirs >= ours for theirs, ours in zip(found.latencies_ms, busy.took_ms, strict=True))
    assert found.seconds >= 0.9 * 700 / found.scheduled_per_s
    assert found.issue_delay_p99_ms >= 0
    assert found.unanswered == 0


def test_a_server_answers_what_waits_together_up_to_its_batch_size(run):
    busy = Busy(ms=0.5)
    run(Server(target_qps=4000, slo_p99_ms=UNREACHED_MS, batch_size=4, min_queries=300), busy)
    assert sum(map(len, busy.calls)) == 300
    assert max(map(len, busy.calls)) == 4


def test_a_server_over_its_objective_is_not_valid_and_says_by_how_much(run):
    found = run(Server(target_qps=100, slo_p99_ms=0.5, min_queries=30), Busy(ms=1))
    assert not found.valid
    assert any("over slo_p99_ms 0.5" in reason for reason in found.reasons)
    assert any("30 of 30 queries took more than 0.5 ms" in reason for reason in found.reasons)


def test_a_hopeless_load_ends_early_and_gives_up_what_waits(run):
    busy = Busy(ms=20)
    scenario = Server(target_qps=1000, slo_p99_ms=10, min_queries=20_000)
    found = run(scenario, busy)
    assert not found.valid
    assert found.unanswered > 0.9 * scenario.max_waiting
    assert len(found.latencies_ms) == len(busy.calls) < 1000
    assert "were given up" in found.reasons[0]


@pytest.mark.parametrize("error", [ValueError("seven"), KeyboardInterrupt()], ids=["error", "interrupt"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: type(scenario).__name__)
def test_what_the_answer_raises_ends_the_run(run, scenario, error):
    busy = Busy(fails_at=5, error=error)
    with pytest.raises(type(error)) as caught:
        run(scenario, busy)
    assert caught.value is error
    assert len(busy.calls) == 5
    assert len(run(scenario, Busy()).latencies_ms) == 100


def test_an_error_ends_a_long_server_run_early(run):
    started = time.monotonic()
    with pytest.raises(ValueError, match="seven"):
        run(Server(target_qps=200, slo_p99_ms=10, min_seconds=300), Busy(fails_at=5, error=ValueError("seven")))
    assert time.monotonic() - started < 60


@pytest.fixture
def interruptible():
    """A shell starts its background commands with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: type(scenario).__name__)
def test_an_interrupt_from_the_keyboard_ends_the_run_and_not_the_process(run, scenario):
    calls = []

    def answer(indices):
        calls.append(indices)
        if len(calls) == 5:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(scenario, answer)
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: type(scenario).__name__)
def test_a_model_is_run_by_the_thread_that_asked(run, scenario):
    asked, threads = [], set()

    def measure():
        asked.append(threading.get_ident())
        run(scenario, lambda _: threads.add(threading.get_ident()))

    measure()
    assert threads == set(asked)
    other = threading.Thread(target=measure)
    other.start()
    other.join()
    assert threads == set(asked)


@pytest.mark.parametrize("scenario", SCENARIOS[:3], ids=lambda scenario: type(scenario).__name__)
def test_the_seed_decides_which_rows_are_asked_for(run, scenario):
    first, again, other = Busy(ms=0), Busy(ms=0), Busy(ms=0)
    run(scenario, first, seed=1)
    run(scenario, again, seed=1)
    run(scenario, other, seed=2)
    assert first.calls == again.calls != other.calls


def test_the_seed_decides_when_a_server_is_asked(run):
    first, again, other = (run(replace(SCENARIOS[3], target_qps=5000), Busy(ms=0), seed=seed) for seed in (1, 1, 2))
    assert first.scheduled_per_s == again.scheduled_per_s != other.scheduled_per_s


def test_runs_can_follow_each_other_in_one_process(run, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    process, seen = psutil.Process(), []
    for number in range(30):
        run(SCENARIOS[number % 4], Busy(ms=0.01))
        seen.append((process.num_threads(), process.num_fds(), process.memory_info().rss))
    threads, files, memory = zip(*seen, strict=True)
    assert min(threads[-4:]) <= max(threads[:4])  # a thread of LoadGen's may outlive its run by a moment
    assert min(files[-4:]) <= max(files[:4])
    assert memory[-1] - max(memory[:8]) < 5e6
    assert not list(tmp_path.iterdir())


class Child:
    """Lives in a process of its own, as a participant of the benchmark does."""

    def __init__(self, engine):
        self.engine = engine

    def measure(self, scenario):
        return loadgen.run(scenario, Busy(), rows=ROWS, seed=1, engine=self.engine)

    def hang(self, scenario):
        return loadgen.run(scenario, lambda _: threading.Event().wait(), rows=ROWS, seed=1, engine=self.engine)


@pytest.mark.parametrize("engine", [ENGINES[0], *(pytest.param(engine, marks=pytest.mark.long) for engine in ENGINES[1:])])
def test_a_child_hands_its_measurements_back_and_is_ended_from_outside_when_it_hangs(engine):
    with Isolated("child", Child, engine, timeout_s=6) as child:
        found = [child.call("measure", scenario) for scenario in SCENARIOS]
        assert [measured.scenario for measured in found] == SCENARIOS
        assert [len(measured.latencies_ms) for measured in found] == [100] * 4
        with pytest.raises(CandidateError, match=r"child did not answer in 6 s \(hang\)"):
            child.call("hang", SCENARIOS[3])


def test_a_run_prints_nothing(run, capfd):
    for scenario in SCENARIOS:
        run(scenario, Busy(ms=0.01))
    assert capfd.readouterr() == ("", "")


def test_a_file_that_lies_about_changes_no_settings(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("audit.config").write_text("*.*.min_query_count = 7\n*.*.max_query_count = 7\n")
    assert len(run(SingleStream(min_queries=100), Busy(ms=0)).latencies_ms) == 100


def test_the_result_says_which_engine_made_it(run):
    found = run(SCENARIOS[0], Busy(ms=0), seed=5)
    assert found.engine.startswith({"mlperf": "mlcommons-loadgen 6.", "plain": "plain"}[run.engine])
    assert (found.scenario, found.rows, found.seed) == (SCENARIOS[0], ROWS, 5)


def test_without_loadgen_the_plain_engine_runs_and_the_reason_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlperf_loadgen", None)
    assert "mlcommons-loadgen cannot be imported" in loadgen.unavailable()
    assert loadgen.run(SCENARIOS[0], Busy(ms=0), rows=ROWS, seed=1).engine == "plain"
    with pytest.raises(Unavailable, match="pip install mlcommons-loadgen"):
        loadgen.run(SCENARIOS[0], Busy(ms=0), rows=ROWS, seed=1, engine="mlperf")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Server(target_qps=0, slo_p99_ms=1), "Server.target_qps must be a number > 0 (got 0)"),
        (lambda: Server(target_qps=float("nan"), slo_p99_ms=1), "(got nan)"),
        (lambda: SingleStream(min_queries=0), "SingleStream.min_queries"),
        (lambda: Offline(min_seconds=-1), "Offline.min_seconds must be a number >= 0 (got -1)"),
        (lambda: loadgen.run(SCENARIOS[0], Busy(), rows=0, seed=1), "needs at least one row"),
    ],
)
def test_a_load_that_cannot_be_is_refused(make, words):
    with pytest.raises(ParamsError) as caught:
        make()
    assert words in str(caught.value)


def holds_up_to(qps, p99_ms=2.0):
    """A measure for the search: valid up to this load; nothing is run."""

    def measure(scenario):
        reasons = [] if scenario.target_qps <= qps else ["p99"]
        return Measured("none", scenario, ROWS, 1, [p99_ms + scenario.target_qps / 1000] * 700, 1, 1, reasons)

    return measure


@pytest.mark.parametrize("limit", [70, 333, 999, 1700])
def test_the_search_closes_in_on_the_highest_load_that_holds(limit):
    found = peak.search(holds_up_to(limit), Server(1, 5), capacity_per_s=1000, max_seconds=1000)
    assert limit / 1.05 <= found.qps <= limit
    assert found.measured.scenario.slo_p99_ms == 5
    assert len(found.trials) <= 13
    assert found.reason == ""


def test_a_load_that_missed_by_bad_luck_has_a_second_chance():
    tried = []

    def measure(scenario):
        tried.append(scenario.target_qps)
        return holds_up_to(0 if len(tried) == 2 else 1900)(scenario)

    found = peak.search(measure, Server(1, 5), capacity_per_s=1000, max_seconds=1000)
    assert tried[1] == 1000
    assert tried.count(1000) == 2
    assert 1900 / 1.05 <= found.qps <= 1900


def test_a_search_in_which_nothing_holds_says_how_near_the_best_came():
    found = peak.search(holds_up_to(0), Server(1, 1.5), capacity_per_s=1000, max_seconds=10_000)
    assert found.qps is None
    assert "the best of 5 had a p99 of 2.031 ms at 31.2 a second" in found.reason


def test_a_search_that_has_no_time_for_one_load_says_what_it_needs():
    found = peak.search(holds_up_to(0), Server(1, 1.5), capacity_per_s=10, max_seconds=20)
    assert found.trials == []
    assert found.reason == "662 queries at 5 a second take 132 s: raise max_seconds (20)"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_peak_of_a_real_model_is_within_its_capacity_and_its_budget(engine):
    started = time.monotonic()
    found = loadgen.peak_qps(Busy(ms=0.5), rows=ROWS, seed=1, slo_p99_ms=5000, max_seconds=3, engine=engine)
    assert time.monotonic() - started < 60
    assert found.qps == max(trial.target_qps for trial in found.trials if trial.held)
    assert max(found.measured.latencies_ms) >= 0.5


@pytest.mark.parametrize("engine", ENGINES)
def test_an_objective_below_the_time_of_one_answer_is_held_by_no_load(engine):
    found = loadgen.peak_qps(Busy(ms=0.5), rows=ROWS, seed=1, slo_p99_ms=0.4, max_seconds=3, engine=engine)
    assert found.qps is None
    assert "slo_p99_ms 0.4" in found.reason
