"""Run one model through the stages, and measure its choice again with ten times the samples."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.choice import models, peer_comparison
from paddleship.benchmark import benchmarking
from paddleship.benchmark.sampling import speedup
from paddleship.benchmark.workload import Workload
from paddleship.config import loading
from paddleship.config.params import Params
from paddleship.reports.statuses import Status
from paddleship.shipped.computing import runtimes
from paddleship.statistics.estimates import Interval
from paddleship.system.isolate import Factory

ROOT = Path(__file__).parents[2]
_STAGES = ("prepare", "train", "export", "optimize", "verify", "benchmark")
_MORE = 10  # times the samples of the first benchmark
_NEAR = 1.5  # times the latency of the choice: slower candidates cannot be the best one


@dataclass(frozen=True)
class Regret:
    """How much slower the chosen candidate is than the best one (0 if it is the best), measured with `more` times the samples.

    `interval` is the ratio of the choice's latency to the best one's, `rivals` are the candidates that were measured again.
    """

    best: str
    interval: Interval
    more: float
    rivals: list[str]

    @property
    def value(self) -> float:
        return max(0.0, self.interval.value - 1)


@dataclass(frozen=True)
class Result:
    """The result for one model; `rows` by participant, with the reason if it was not made, proven or measured.

    `peers` are our choice and the defaults of other tools, if they were requested.
    """

    name: str
    rows: dict[str, dict[str, Any]]
    chosen: str = ""
    score: float = math.nan
    regret: Regret | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    failed: str = ""
    peers: dict[str, peer_comparison.Row] = field(default_factory=dict)


def hold(name: str, work: Path, *, short: bool, peers: Sequence[str] = ()) -> Result:
    """Run the model through the stages up to benchmark, and compare its choice with `peers`. A failed stage is in the result."""
    work.mkdir(parents=True)
    values = loading.merge(loading.read(ROOT / "params.yaml"), models.settings(name, short=short))
    with chdir(work):
        Path("seed").write_text("7", encoding="utf-8")
        Path("params.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
        return _through_the_stages(name, loading.load(Path("params.yaml")), short=short, peers=peers)


def _through_the_stages(name: str, settings: Params, *, short: bool, peers: Sequence[str]) -> Result:
    """The same in the current folder."""
    reports, seconds = Path("reports"), {}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for stage in _STAGES:
        start = time.monotonic()
        print(f"{name}: {stage}", file=sys.stderr, flush=True)
        done = subprocess.run(
            [sys.executable, "-m", f"tasks.{stage}"], env=environment, capture_output=True, encoding="utf-8", errors="replace"
        )
        seconds[stage] = round(time.monotonic() - start, 1)
        if done.returncode:
            return Result(name, rows_of(reports), seconds=seconds, failed=done.stderr.strip().splitlines()[-1])
    rows = rows_of(reports)
    chosen = next(participant for participant, row in rows.items() if row.get("winner"))
    regret = look_again(settings, rows, chosen, more=2 if short else _MORE)
    trained = _report(reports, "train")["metrics"]
    score = trained.get("validation_accuracy", trained.get("validation_r2"))
    others = peer_comparison.compare(settings, chosen, peers, Path("peers").absolute()) if peers else {}
    return Result(name, rows, chosen, score, regret, seconds, peers=others)


def look_again(settings: Params, rows: Mapping[str, Mapping[str, Any]], chosen: str, *, more: int = _MORE) -> Regret:
    """Measure the chosen candidate and those near it again, with `more` times the samples."""
    proven = {name: row for name, row in rows.items() if row["status"] == Status.MEASURED and name not in ("eager", "to_static")}
    ranked = sorted(proven, key=lambda name: float(proven[name]["p50_ms"]))
    limit = _NEAR * proven[chosen]["p50_ms"]
    rivals = [name for place, name in enumerate(ranked) if name != chosen and (place < 2 or proven[name]["p50_ms"] <= limit)]
    wanted = more * max(proven[name]["samples"] for name in (chosen, *rivals))
    blocks = more * settings.benchmark.blocks
    again = settings.benchmark.model_copy(
        update={
            "starts": 2 * settings.benchmark.starts,
            "blocks": blocks,
            "samples_per_block": -(-wanted // blocks),
            "max_seconds": 15 + 2e-3 * wanted * sum(proven[name]["p50_ms"] for name in (chosen, chosen, *rivals)),
        }
    )
    folder = Path(settings.paths.candidates)
    batches = Workload.of(Path(settings.paths.prepared)).batches([1])
    participants: dict[str, Factory] = {name: (runtimes.load, (folder / name,)) for name in (chosen, *rivals)}
    found = benchmarking.compare(participants, batches, again, thread_count=settings.optimize.threads).measurements
    apart = {name: speedup(found[chosen], found[name], 1) or Interval(0, 0, math.inf) for name in rivals}
    best = max(apart, key=lambda name: apart[name].value, default=chosen)
    interval = apart.get(best, Interval(1, 1, 1))
    times = len(found[chosen].samples(1)) / proven[chosen]["samples"]
    return Regret(best if interval.value > 1 else chosen, interval, times, rivals)


def rows_of(reports: Path) -> dict[str, dict[str, Any]]:
    """By participant: its row of benchmark, otherwise why verify refused it or optimize could not make it, with the stage."""
    rows: dict[str, dict[str, Any]] = {}
    for stage in ("optimize", "verify", "benchmark"):
        found = _report(reports, stage)["candidates"] if (reports / f"{stage}.json").exists() else {}
        rows.update({name: {**row, "stage": stage} for name, row in found.items() if row["status"] != Status.NOT_MADE})
    return rows


def _report(reports: Path, stage: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((reports / f"{stage}.json").read_text(encoding="utf-8"))
    return found
