import json

import pytest
from pyarrow import parquet

from paddleship import samples
from paddleship.comparison import Comparison
from paddleship.errors import BadInput
from paddleship.sampling import Block, Measurement
from paddleship.vitals import Others


def comparison(faster):
    def measured(name, factor):
        blocks = [Block(start, block, 0, [factor, factor * 1.25, factor], [0, 1, 0]) for start in range(2) for block in range(4)]
        return Measurement(name, blocks={1: blocks})

    found = {"eager": measured("eager", 6.0), "fast": measured("fast", 6.0 / faster)}
    return Comparison(found, measured("eager again", 6.0), "eager", 1, 0.05, Others(0, 0, 0), True, 2, 1.0)


def test_raw_samples_are_kept_with_process_block_and_order(tmp_path):
    samples.write(comparison(2), tmp_path)
    table = parquet.read_table(tmp_path / "samples.parquet").to_pylist()
    assert len(table) == 3 * 2 * 4 * 3
    assert table[1] == {"contestant": "eager", "batch_size": 1, "start": 0, "block": 0, "turn": 0, "batch": 1, "latency_ms": 7.5}
    found, meta = samples.read(tmp_path)
    assert found["fast"].blocks == comparison(2).found["fast"].blocks
    assert meta["baseline"] == "eager"


def test_a_later_race_on_the_same_host_is_compared_by_its_speedups(tmp_path):
    samples.write(comparison(2), tmp_path)
    assert samples.against(tmp_path, comparison(3))["fast"].value == pytest.approx(1.5)


def test_a_race_on_another_host_is_not_compared(tmp_path):
    samples.write(comparison(2), tmp_path)
    meta = json.loads((tmp_path / "samples.json").read_text())
    meta["host"]["processor"] = "Abacus"
    del meta["host"]["numpy"]
    (tmp_path / "samples.json").write_text(json.dumps(meta))
    with pytest.raises(BadInput, match=r"another host \(processor was 'Abacus', is .*; numpy was 'absent', is "):
        samples.against(tmp_path, comparison(3))
