"""Write the samples of a benchmark, and compare two benchmarks of the same host."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

from paddleship.benchmark.comparison import AGAIN, Comparison, is_disturbed
from paddleship.benchmark.sampling import Block, Measurement, paired, speedup
from paddleship.errors import BadInput
from paddleship.reports.statuses import Status
from paddleship.shipped.computing.files import read_json, sha256
from paddleship.shipped.computing.runtimes import registry
from paddleship.statistics import estimates
from paddleship.system import environment, host

FILE, META = "samples.parquet", "samples.json"
SCHEMA_VERSION = 5
_BLOCK = ("participant", "batch_size", "start", "block", "turn")  # the columns that identify a block

Gains = dict[str, list[list[float]]]


@dataclass(frozen=True)
class SpeedupChange:
    """A participant's speedup in two benchmarks, the ratio of the later to the earlier one, and its difference."""

    name: str
    before: estimates.Interval
    after: estimates.Interval
    change: estimates.Interval
    difference: estimates.Difference

    def __str__(self) -> str:
        span = f"{self.change.value:.3f} ({self.change.low:.3f} to {self.change.high:.3f})"
        return f"{self.name:26} {self.before.value:7.2f}× {self.after.value:7.2f}×   {span:26} {self.difference}"


def write(comparison: Comparison, folder: Path) -> None:
    """Write one row per sample, also of participants that failed, and a file with statuses, host and baseline."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [
        {
            "participant": measurement.name,
            "batch_size": size,
            "start": block.start,
            "block": block.block,
            "turn": block.turn,
            "batch": index,
            "latency_ms": ms,
        }
        for measurement in [*comparison.measurements.values(), comparison.again]
        for size, blocks in measurement.blocks.items()
        for block in blocks
        for index, ms in zip(block.batches, block.samples, strict=True)
    ]
    parquet.write_table(pa.Table.from_pylist(rows), folder / FILE)
    meta = {
        "schema_version": SCHEMA_VERSION,
        "samples_sha256": sha256(folder / FILE),
        "baseline": comparison.baseline,
        "batch_size": comparison.size,
        "effect": comparison.effect,
        "busy_share": comparison.others.busy_share,
        "stolen_share": comparison.others.stolen_share,
        "gpu_processes": comparison.others.gpu_processes,
        "statuses": {measurement.name: measurement.status for measurement in [*comparison.measurements.values(), comparison.again]},
        "host": host.fingerprint(),
        "versions": environment.installed(registry.distributions()),
    }
    (folder / META).write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")


def read(folder: Path) -> tuple[dict[str, Measurement], dict[str, Any]]:
    """Read the measurements of an earlier benchmark, and the facts about it. Raises BadInput."""
    import pyarrow as pa
    from pyarrow import parquet

    if not (folder / META).exists():
        raise BadInput(f"{str(folder)!r} is no folder of a benchmark, which has {META}: give one, such as models/benchmark")
    meta = read_json(folder / META, stage="benchmark")
    if not isinstance(meta, dict):
        raise BadInput(f"{folder / META} is not a description of benchmark samples: run that benchmark again")
    if meta.get("schema_version") != SCHEMA_VERSION:
        version = meta.get("schema_version")
        raise BadInput(f"{folder / META} has schema version {version!r}, this paddleship reads {SCHEMA_VERSION}: run that benchmark again")
    try:
        if sha256(folder / FILE) != meta["samples_sha256"]:
            raise BadInput(f"{folder / FILE} changed since it was measured: restore it, or run that benchmark again")
        rows = parquet.read_table(folder / FILE).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise BadInput(f"{folder / FILE} cannot be read ({' '.join(str(error).split())}): run that benchmark again") from None
    measurements: dict[str, Measurement] = {}
    for (name, size, start, block, turn), sampled in itertools.groupby(rows, key=itemgetter(*_BLOCK)):
        pairs = [(row["latency_ms"], row["batch"]) for row in sampled]
        samples, batches = zip(*pairs, strict=True)
        status = Status(meta["statuses"][name])
        measurements[name] = measurements.get(name, Measurement(name, status=status)).with_block(
            size, Block(start, block, turn, samples, batches)
        )
    return measurements, meta


def compare(earlier: Path, later: Path) -> list[SpeedupChange]:
    """The change of the speedup over the baseline between two benchmarks, for each participant in both.

    Speedups are compared, not milliseconds, so that a slower hour of the machine has no effect. Raises BadInput if the benchmarks ran on
    unlike hosts.
    """
    (before, old), (after, new) = read(earlier), read(later)
    host.require_same(old["host"] | old.get("versions", {}), new["host"] | new.get("versions", {}), what=str(earlier))
    for key in ("baseline", "batch_size"):
        if old[key] != new[key]:
            raise BadInput(
                f"{earlier} was measured with {key} {old[key]!r}, {later} with {new[key]!r}: run both benchmarks with the same settings"
            )
    gains = _gains(before, old["baseline"], old["batch_size"]), _gains(after, new["baseline"], new["batch_size"])
    changes = {name: estimates.change(gains[0][name], starts) for name, starts in gains[1].items() if name in gains[0]}
    aa_ratio = changes.pop(new["baseline"] + AGAIN, None)
    return [
        SpeedupChange(
            name,
            before=estimates.ratio(gains[0][name]),
            after=estimates.ratio(gains[1][name]),
            change=change,
            difference=estimates.difference(change, aa_ratio, effect=new["effect"]),
        )
        for name, change in changes.items()
    ]


def require_measured(folder: Path, choice: Mapping[str, Any], *, max_busy_share: float) -> None:
    """Raise BadInput unless the speedup of a choice, with its interval, and whether it is valid are what was measured."""
    measurements, meta = read(folder)
    measured = measurements.get(meta["baseline"]), measurements.get(choice["candidate"])
    again = speedup(measured[0], measured[1], meta["batch_size"]) if measured[0] and measured[1] else None
    if again is None:
        raise BadInput(f"{folder / FILE} has no samples of {choice['candidate']!r}: run `paddleship run --again benchmark`")
    for key, value in (("speedup", again.value), ("speedup_low", again.low), ("speedup_high", again.high)):
        if not math.isclose(choice[key], value, rel_tol=1e-9):
            raise BadInput(f"choice.json has the {key} {choice[key]}, but its samples give {value}: run `paddleship run --again benchmark`")
    shares = meta.get("busy_share", math.inf), meta.get("stolen_share", math.inf)
    valid = not is_disturbed(*shares, max_busy_share, gpu_processes=meta.get("gpu_processes", 0))
    if choice["benchmark_valid"] is not valid:
        raise BadInput(
            f"choice.json has benchmark_valid {choice['benchmark_valid']}, but the other load in {META} gives {valid}: "
            "run `paddleship run --again benchmark`"
        )


def _gains(measurements: dict[str, Measurement], baseline: str, size: int) -> Gains:
    """Logarithms of the speedups of paired blocks, by participant and start."""
    base = measurements.get(baseline)
    gains = {name: paired(base, measurement, size) for name, measurement in measurements.items() if base and name != baseline}
    return {name: starts for name, starts in gains.items() if starts}
