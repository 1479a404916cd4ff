import json
from dataclasses import replace

import pytest
from pyarrow import parquet

from paddleship.benchmark import samples
from paddleship.benchmark.comparison import Comparison
from paddleship.benchmark.sampling import Block, Measurement, speedup
from paddleship.benchmark.system_metrics import OtherLoad
from paddleship.cli.benchmarks import compare
from paddleship.errors import BadInput
from paddleship.reports.statuses import Status


def comparison(faster):
    def measured(name, factor):
        samples, batches = (factor, factor * 1.25, factor), (0, 1, 0)
        return Measurement(name, blocks={1: tuple(Block(start, block, 0, samples, batches) for start in range(2) for block in range(4))})

    measurements = {"eager": measured("eager", 6.0), "fast": measured("fast", 6.0 / faster)}
    return Comparison(measurements, measured("eager again", 6.0), "eager", 1, 0.05, OtherLoad(0, 0, 0), True, 2, 1.0)


def test_raw_samples_are_kept_with_process_block_and_order(tmp_path):
    samples.write(comparison(2), tmp_path)
    table = parquet.read_table(tmp_path / "samples.parquet").to_pylist()
    assert len(table) == 3 * 2 * 4 * 3
    assert table[1] == {"participant": "eager", "batch_size": 1, "start": 0, "block": 0, "turn": 0, "batch": 1, "latency_ms": 7.5}
    measurements, meta = samples.read(tmp_path)
    assert measurements["fast"].blocks == comparison(2).measurements["fast"].blocks
    assert meta["baseline"] == "eager"


def test_the_samples_of_one_that_failed_are_kept_and_never_compared(tmp_path):
    made = comparison(2)
    failed = replace(made.measurements["fast"], status=Status.WRONG, reason="its answers changed")
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        samples.write(replace(made, measurements={**made.measurements, "fast": failed}), tmp_path / name)
    measurements, _ = samples.read(tmp_path / "after")
    assert measurements["fast"].blocks == failed.blocks
    assert measurements["fast"].status == Status.WRONG
    assert samples.compare(tmp_path / "before", tmp_path / "after") == []


@pytest.fixture
def benchmarks(tmp_path):
    """Write a benchmark with the given speedup into a folder of its own."""

    def write(faster):
        folder = tmp_path / str(faster)
        folder.mkdir()
        samples.write(comparison(faster), folder)
        return folder

    return write


@pytest.mark.parametrize(("count", "valid"), [(0, True), (1, False)])
def test_a_choice_that_calls_itself_valid_although_others_used_the_gpu_is_refused(tmp_path, count, valid):
    made = comparison(2)
    samples.write(replace(made, others=OtherLoad(0, 0, 0, gpu_processes=count)), tmp_path)
    again = speedup(made.measurements["eager"], made.measurements["fast"], 1)
    choice = {"candidate": "fast", "speedup": again.value, "speedup_low": again.low, "speedup_high": again.high, "benchmark_valid": True}
    if valid:
        samples.require_measured(tmp_path, choice, max_busy_share=0.6)
    else:
        with pytest.raises(BadInput, match=r"choice\.json has benchmark_valid True, but the other load in .* gives False"):
            samples.require_measured(tmp_path, choice, max_busy_share=0.6)


@pytest.mark.parametrize(("before", "after", "difference"), [(2, 3, "better"), (3, 2, "worse"), (2, 2.04, "cannot tell")])
def test_two_benchmarks_on_the_same_host_are_compared_by_their_speedups(benchmarks, before, after, difference):
    (change,) = samples.compare(benchmarks(before), benchmarks(after))
    assert (change.name, change.difference) == ("fast", difference)
    assert change.change.value == pytest.approx(after / before)
    assert change.before.value == pytest.approx(before)


def test_the_command_says_what_became_worse_and_fails(benchmarks, capsys):
    assert compare.main([str(benchmarks(3)), str(benchmarks(2))], standalone_mode=False) == 3
    assert "0.667" in capsys.readouterr().out


def rewrite(folder, **changes):
    meta = json.loads((folder / "samples.json").read_text())
    (folder / "samples.json").write_text(json.dumps(meta | changes))
    return folder


def test_benchmarks_with_unlike_versions_of_a_runtime_are_not_compared(benchmarks):
    later = benchmarks(2)
    versions = json.loads((later / "samples.json").read_text())["versions"]
    other = rewrite(benchmarks(3), versions=versions | {"onnxruntime": "0.0.1"})
    with pytest.raises(BadInput, match=r"onnxruntime was '0\.0\.1', is "):
        samples.compare(other, later)


def test_benchmarks_on_unlike_hosts_are_not_compared(benchmarks):
    later = benchmarks(3)
    host = json.loads((later / "samples.json").read_text())["host"]
    other = rewrite(benchmarks(2), host={key: value for key, value in host.items() if key != "numpy"} | {"processor": "Abacus"})
    with pytest.raises(BadInput, match=r"another host \(processor was 'Abacus', is .*; numpy was 'absent', is "):
        samples.compare(other, later)


def test_a_benchmark_of_another_version_is_not_read(benchmarks):
    with pytest.raises(BadInput, match="schema version 2, this paddleship reads 5"):
        samples.read(rewrite(benchmarks(2), schema_version=2))


def test_a_folder_without_a_benchmark_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"is no folder of a benchmark, which has samples\.json: give one"):
        samples.read(tmp_path)


def test_benchmarks_of_unlike_batch_sizes_are_not_compared(benchmarks):
    with pytest.raises(BadInput, match=r"batch_size 8, .* with 1"):
        samples.compare(rewrite(benchmarks(2), batch_size=8), benchmarks(3))


@pytest.mark.parametrize(("size", "words"), [(0, "changed since it was measured"), (100, "changed since"), (None, "cannot be read")])
def test_samples_that_were_cut_off_or_lost_are_named(benchmarks, size, words):
    folder = benchmarks(2)
    content = (folder / "samples.parquet").read_bytes()
    (folder / "samples.parquet").unlink()
    if size is not None:
        (folder / "samples.parquet").write_bytes(content[:size])
    with pytest.raises(BadInput, match=rf"samples\.parquet {words}"):
        samples.read(folder)
