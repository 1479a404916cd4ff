"""Measure the cost of `verify` on the reviews example: its seconds against an epoch of training, its memory against eager's."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import yaml

from paddleship.config import loading
from paddleship.data import dataset as datasets
from paddleship.model.eager import Eager, SourceModel
from paddleship.proof import answering
from paddleship.proof.cases import id_cases, inputs
from paddleship.system import isolate

ROOT = Path(__file__).parents[2]
_ROUNDS = 3


def measure(work: Path) -> dict[str, float]:
    """Train two epochs of the example in a copy of this checkout, then verify three times: medians in seconds, peaks in bytes."""
    checkout = _reviews(work / "checkout")
    for stage in ("prepare", "train", "export", "optimize"):
        _run(checkout, f"tasks.{stage}")
    epoch_s = statistics.median(row["epoch_seconds"] for row in _report(checkout, "train")["facts"]["history"])
    seconds, peaks = [], []
    for _ in range(_ROUNDS):
        peaks.append(_run(checkout, "tasks.verify"))
        seconds.append(_report(checkout, "verify")["seconds"])
    eager_peak = isolate.run("eager on the same inputs", _eager_peak, checkout, timeout_s=600, environment=isolate.threads(1))
    return {
        "train_epoch_s": epoch_s,
        "verify_s": statistics.median(seconds),
        "verify_s_goal": epoch_s,
        "verify_peak_memory_bytes": max(peaks),
        "verify_peak_memory_bytes_goal": 2 * eager_peak,
        "eager_peak_memory_bytes": eager_peak,
    }


def table(figures: dict[str, float]) -> str:
    seconds, epoch = f"{figures['verify_s']:.1f} s", f"{figures['train_epoch_s']:.1f} s"
    memory, eager = (f"{figures[key] / 1e6:.0f} MB" for key in ("verify_peak_memory_bytes", "eager_peak_memory_bytes"))
    return (
        f"verify on the reviews example: {seconds} (goal: less than an epoch of its training, {epoch}), "
        f"at most {memory} over all its processes (goal: under twice the eager model's {eager} on the same inputs)"
    )


def copy(target: Path) -> None:
    """The tracked files of this checkout, as they are on disk."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes((ROOT / name).read_bytes())


def _reviews(target: Path) -> Path:
    copy(target)
    values = yaml.safe_load((target / "params.yaml").read_text(encoding="utf-8"))
    values["train"] |= {"epochs": 2, "min_score": None}
    (target / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    fetched, raw = ROOT / values["data"]["raw"], target / values["data"]["raw"]
    raw.parent.mkdir(parents=True, exist_ok=True)
    if fetched.exists():
        subprocess.run(["cp", "-r", fetched, raw], check=True)
    else:
        subprocess.run([sys.executable, *values["data"]["fetch"].values(), values["data"]["raw"]], cwd=target, check=True)
    return target


def _run(checkout: Path, module: str) -> int:
    """Run one stage. Returns the largest resident memory of all its processes, in bytes."""
    process = psutil.Popen([sys.executable, "-m", module], cwd=checkout, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        total = 0
        for one in [process, *process.children(recursive=True)]:
            try:
                total += one.memory_info().rss
            except psutil.Error:
                continue
        peak = max(peak, total)
        time.sleep(0.02)
    if process.returncode:
        raise RuntimeError(f"{module} ended with {process.returncode}")
    return peak


def _eager_peak(checkout: Path) -> int:
    """Peak memory of this process after the eager model answered the same cases as in verify."""
    import os

    os.chdir(checkout)
    values = loading.load(Path("params.yaml"))
    preprocess, _, specs = datasets.read_preprocess(Path(values.paths.prepared))
    rows = datasets.encode(preprocess, datasets.read(Path(values.paths.prepared), "test").take(range(values.verify.samples)))
    cases = inputs.from_rows(rows, specs, preprocess.collate, max_batch=values.verify.max_batch)
    cases += id_cases.walk(specs, [case.inputs for case in cases], max_batch=values.verify.max_batch)
    answering.ask("eager", _Here(Eager(SourceModel.of(values))), cases)
    line = next(line for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


class _Here:
    """A model in this process."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def call(self, method: str, *arguments: Any) -> Any:
        return getattr(self._model, method)(*arguments)


def _report(checkout: Path, stage: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((checkout / "reports" / f"{stage}.json").read_text(encoding="utf-8"))
    return found
