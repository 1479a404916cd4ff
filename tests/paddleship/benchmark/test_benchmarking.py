import os
import time
from dataclasses import replace

import numpy as np
import pytest

from paddleship.benchmark import benchmarking, result_table
from paddleship.benchmark.comparison import Comparison
from paddleship.benchmark.sampling import Block, Measurement, Sampler
from paddleship.benchmark.system_metrics import OtherLoad
from paddleship.config.sections.benchmark import Benchmark

SETTINGS = Benchmark(
    batch_sizes=[1, 4], concurrency=[], starts=1, blocks=6, samples_per_block=20, warmup_s=0.1, max_seconds=3, timeout_s=20
)
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


class Hanging(Sleeper):
    def run(self, inputs):
        if len(inputs["x"]) == 4:
            time.sleep(60)
        return super().run(inputs)


class Leaking(Sleeper):
    def __init__(self, seconds):
        super().__init__(seconds)
        self.kept = []

    def run(self, inputs):
        self.kept.append(np.ones(20_000))
        return super().run(inputs)


class Fickle(Sleeper):
    """Answers well until it has been asked often."""

    asked = 0

    def run(self, inputs):
        self.asked += 1
        return {"x": super().run(inputs)["x"] + (self.asked > 150)}


class Liar(Sleeper):
    """Answers wrong from the start."""

    def run(self, inputs):
        return {"x": inputs["x"] + 1}


def load_broken():
    raise RuntimeError("no such file")


def compare(participants, settings=SETTINGS, batches=BATCHES, **options):
    return benchmarking.compare(participants, batches, settings, thread_count=1, **options)


def comparison_under(busy, stolen):
    """Of one participant without samples, on a machine where other processes and the hypervisor took these shares."""
    return Comparison({"one": Measurement("one")}, Measurement("again"), "one", 1, 0.05, OtherLoad(busy, stolen, 1.0), True, 1, 1.0)


def messages(comparison):
    return [found.message for found in comparison.findings(0.6)]


@pytest.mark.parametrize(("count", "words"), [(0, None), (1, "1 other process computed on the GPU"), (2, "2 other processes computed")])
def test_a_measurement_on_a_gpu_that_others_use_is_not_valid(count, words):
    comparison = replace(comparison_under(0, 0), others=OtherLoad(0, 0, 0, gpu_processes=count))
    assert comparison.disturbed(0.6) is (count > 0)
    assert [message for message in messages(comparison) if words and message.startswith(words)] == messages(comparison)


def test_the_slower_one_is_found_slower_by_its_factor():
    settings = SETTINGS.model_copy(update={"max_seconds": 9})  # of which the batches get a fifth, also on a busy machine
    comparison = compare({"slow": (Sleeper, (0.002,)), "fast": (Sleeper, (0.0005,))}, settings)
    ratio, low, high = comparison.speedup("fast")
    assert low <= ratio <= high
    assert ratio > 2
    assert comparison.difference("fast") == "better"
    assert comparison.difference("slow") is None
    assert comparison.speedups_of("fast") == {"slow": {"ratio": ratio, "low": low, "high": high}}
    assert comparison.speedups_of("slow")["fast"]["high"] < 1
    fast, slow = comparison.measurements["fast"], comparison.measurements["slow"]
    assert fast.throughput_per_s(4) > slow.throughput_per_s(4)
    assert slow.peak_memory_bytes > 1e6
    assert slow.cold_start_ms[0] > 0


def test_one_that_dies_hangs_leaks_or_lies_is_a_row_and_the_others_are_measured():
    def judge(name, answers):
        return "" if answers[0]["x"].max() == 0 else "it is not what eager says"

    participants = {
        "well": (Sleeper, (0.0001,)),
        "mortal": (Mortal, (0.0001,)),
        "broken": (load_broken, ()),
        "hanging": (Hanging, (0.0001,)),
        "leaking": (Leaking, (0.0001,)),
        "fickle": (Fickle, (0.0001,)),
        "liar": (Liar, (0.0001,)),
    }
    settings = SETTINGS.model_copy(update={"timeout_s": 3, "max_seconds": 8})
    comparison = compare(participants, settings, questions=BATCHES[1], judge=judge)
    rows = {name: (found.status, found.reason) for name, found in comparison.measurements.items()}
    assert {name: status for name, (status, _) in rows.items()} == {
        "well": "measured",
        "mortal": "failed",
        "broken": "failed",
        "hanging": "failed",
        "leaking": "leaks",
        "fickle": "wrong",
        "liar": "wrong",
    }
    for name, words in {
        "mortal": "SIGABRT",
        "broken": "no such file",
        "hanging": "did not answer in 3 s",
        "leaking": "bytes per 1,000 requests",
        "fickle": "changed under load",
        "liar": "it is not what eager says",
    }.items():
        assert words in rows[name][1]
    for name in ("mortal", "liar"):
        assert comparison.measurements[name].blocks, "the samples of one that failed are kept"
        assert not comparison.measurements[name].counted
        assert comparison.speedup(name) is None
    assert len(comparison.measurements["well"].blocks[4]) == 4


def test_a_leak_is_found_where_every_start_has_too_few_blocks_to_show_it():
    settings = SETTINGS.model_copy(update={"starts": 2, "blocks": 4})
    comparison = compare({"well": (Sleeper, (0.0001,)), "leaking": (Leaking, (0.0001,))}, settings, {1: BATCHES[1]})
    assert {name: found.status for name, found in comparison.measurements.items()} == {"well": "measured", "leaking": "leaks"}


def test_the_time_budget_bounds_the_samples():
    started = time.monotonic()
    tight = SETTINGS.model_copy(update={"blocks": 4, "samples_per_block": 1000, "max_seconds": 1})
    comparison = compare({"slow": (Sleeper, (0.01,))}, tight, {1: BATCHES[1]})
    assert time.monotonic() - started < 15
    assert len(comparison.measurements["slow"].blocks[1][0].samples) < 100


def test_a_size_that_would_take_too_long_is_left_out_of_the_curve():
    batches = {1: BATCHES[1], 1000: [{"x": np.zeros((1000, 2), np.float32)}]}
    comparison = compare({"slow": (Sleeper, (0.05,))}, SETTINGS.model_copy(update={"blocks": 4, "max_seconds": 1}), batches)
    assert set(comparison.measurements["slow"].blocks) == {1}
    assert comparison.measurements["slow"].status == "measured"
    assert any("batch size 1,000 " in said and " for slow" in said for said in messages(comparison))


def test_latency_by_length_is_told_where_the_first_input_has_a_fixed_size():
    batches = {1: [{"fixed": np.zeros((1, 6)), "x": np.zeros((1, length))} for length in (2, 5)]}
    found = {"eager": Measurement("eager", blocks={1: tuple(Block(0, block, 0, (1.0, 3.0) * 3, (0, 1) * 3) for block in range(2))})}
    comparison = Comparison(found, found["eager"], "eager", 1, 0.05, OtherLoad(0, 0, 0), True, 1, 1.0)
    curve = result_table.curves(comparison, batches)["eager"]["length"]
    assert [(point["length"], point["p50_ms"], point["samples"]) for point in curve] == [(2, 1.0, 6), (5, 3.0, 6)]


def test_throughput_has_the_slow_samples_in_it_and_no_block_decides_it_alone():
    blocks = tuple(Block(0, number, 0, samples, (0, 0)) for number, samples in enumerate([(1.0, 3.0), (1.0, 3.0), (1.0, 99.0)]))
    assert Measurement("x", blocks={4: blocks}).throughput_per_s(4) == pytest.approx(4 * 2 / 0.004)


def test_fewer_starts_than_were_asked_for_are_told():
    comparison = compare({"slow": (Sleeper, (0.01,))}, SETTINGS.model_copy(update={"starts": 3, "max_seconds": 0.5}), {1: BATCHES[1]})
    assert any("1 of 3 starts" in said for said in messages(comparison))


def test_one_that_is_too_slow_for_a_median_is_a_row_that_says_so():
    comparison = compare({"slow": (Sleeper, (0.1,))}, SETTINGS.model_copy(update={"blocks": 4, "max_seconds": 0.1}), {1: BATCHES[1]})
    row = result_table.row(comparison, "slow", SETTINGS, file_bytes=1)
    assert (row["status"], row["p50_ms"]) == ("failed", None)
    assert "benchmark.max_seconds" in row["reason"]


def test_every_start_is_a_process_of_its_own_and_the_baseline_runs_twice():
    settings = SETTINGS.model_copy(update={"starts": 2, "max_seconds": 200, "timeout_s": 100, "concurrency": [1, 2], "effect": 0.5})
    comparison = compare({"one": (Sleeper, (0.0002,)), "two": (Sleeper, (0.0002,))}, settings, {1: BATCHES[1]})
    assert {block.start for block in comparison.measurements["two"].blocks[1]} >= {0, 1}
    assert len(comparison.measurements["two"].cold_start_ms) == comparison.starts >= 2
    assert comparison.aa_ratio.low < 1.5
    assert comparison.measurements["two"].rates[1] > 0


def test_several_processes_of_one_participant_answer_at_the_same_time():
    sampler = Sampler({"one": (Sleeper, (0.002,)), "mortal": (Mortal, (0.002,))}, BATCHES, SETTINGS, thread_count=1)
    for name, size in (("one", 1), ("mortal", 4)):
        sampler.run_together(name, [(), ()], size=size, seconds=0.3)
    assert sampler.measurements["one"].rates[2] > 0
    assert sampler.measurements["mortal"].status == "failed"


def test_cores_are_shared_out_and_never_twice():
    assert benchmarking._parts(2, 2, [0, 1, 2, 3, 4]) == [[0, 1], [2, 3]]
    assert benchmarking._parts(3, 2, [0, 1, 2, 3, 4]) == []


def test_no_core_to_spare_is_said(monkeypatch):
    monkeypatch.setattr(benchmarking.host, "core_numbers", lambda: [0])
    comparison = compare({"one": (Sleeper, (0.0002,))}, batches={1: BATCHES[1]})
    assert any("optimize.threads" in str(found) for found in comparison.findings(0.6))


@pytest.mark.parametrize(("busy", "stolen", "words"), [(0.5, 0, "50%"), (0, 0.2, "20%")])
def test_other_load_is_a_warning_with_what_to_do(busy, stolen, words):
    found = comparison_under(busy, stolen).findings(0.6)
    assert [(one.kind, one.severity) for one in found] == [("imprecise", "warning")]
    assert words in found[0].message
    assert found[0].advice


def test_a_quiet_machine_and_enough_time_leave_nothing_to_say():
    assert comparison_under(0.02, 0).findings(0.6) == []


@pytest.mark.parametrize(("busy", "stolen", "valid"), [(0.84, 0, False), (0.3, 0.4, False), (0.6, 0, True), (0.55, 0.02, True)])
def test_a_benchmark_that_lost_too_much_of_the_machine_is_not_valid(busy, stolen, valid):
    comparison = comparison_under(busy, stolen)
    assert comparison.disturbed(0.6) is not valid
    assert [one.kind for one in comparison.findings(0.6)][:1] == ["imprecise" if valid else "disturbed"]
    assert f"other processes used {busy:.0%}" in comparison.findings(0.6)[0].message
