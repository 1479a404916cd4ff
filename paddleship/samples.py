"""Raw samples of a race on disk, and the comparison of a new race with an earlier one of the same host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from paddleship import host, statistics
from paddleship.comparison import Comparison
from paddleship.files import read_json
from paddleship.sampling import Block, Measurement, paired

FILE, META = "samples.parquet", "samples.json"
SCHEMA_VERSION = 1


def write(comparison: Comparison, folder: Path) -> None:
    """One row per sample, and beside them the host and the baseline, without which they mean nothing."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        {
            "contestant": measurement.name,
            "batch_size": size,
            "start": block.start,
            "block": block.block,
            "turn": block.turn,
            "batch": place,
            "latency_ms": ms,
        }
        for measurement in [*comparison.found.values(), comparison.again]
        for size, blocks in measurement.blocks.items()
        for block in blocks
        for place, ms in zip(block.batches, block.samples, strict=True)
    ]
    parquet.write_table(pa.Table.from_pylist(rows), folder / FILE)
    meta = {"schema_version": SCHEMA_VERSION, "baseline": comparison.baseline, "batch_size": comparison.size, "host": host.fingerprint()}
    (folder / META).write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")


def read(folder: Path) -> tuple[dict[str, Measurement], dict[str, Any]]:
    """The measurements of an earlier race and what lay beside them. Raises BadInput."""
    from pyarrow import parquet

    meta = read_json(folder / META, stage="benchmark")
    found: dict[str, Measurement] = {}
    blocks: dict[tuple[str, int, int, int], Block] = {}
    for row in parquet.read_table(folder / FILE).to_pylist():
        name, size, start, number = row["contestant"], row["batch_size"], row["start"], row["block"]
        measurement = found.setdefault(name, Measurement(name))
        if (name, size, start, number) not in blocks:
            blocks[name, size, start, number] = Block(start, number, row["turn"], [], [])
            measurement.blocks.setdefault(size, []).append(blocks[name, size, start, number])
        blocks[name, size, start, number].samples.append(row["latency_ms"])
        blocks[name, size, start, number].batches.append(row["batch"])
    return found, meta


def against(earlier: Path, comparison: Comparison) -> dict[str, statistics.Interval]:
    """How the speedup over the baseline changed since an earlier race, by contestant of both: above 1 it grew.

    Speedups are compared, not milliseconds, so that a slower hour of the machine falls out. Raises BadInput where the
    earlier race ran on another host.
    """
    found, meta = read(earlier)
    host.require_same(meta["host"], host.fingerprint(), what=str(earlier))
    before, size = _gains(found, meta["baseline"], meta["batch_size"]), comparison.size
    after = _gains(comparison.found, comparison.baseline, size)
    return {name: statistics.change(before[name], after[name]) for name in after if name in before}


def _gains(found: dict[str, Measurement], baseline: str, size: int) -> dict[str, list[list[float]]]:
    """Logarithms of the speedups of paired blocks, by contestant and start."""
    base = found.get(baseline)
    gains = {name: paired(base, measurement, size) for name, measurement in found.items() if base and name != baseline}
    return {name: starts for name, starts in gains.items() if starts}
