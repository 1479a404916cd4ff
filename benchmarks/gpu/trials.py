"""The models of the check, through the stages: those that need the processor at the same time, those that measure one after the other."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import yaml

from benchmarks.choice import contest, models
from benchmarks.choice.contest import Regret
from paddleship.config import loading
from paddleship.shipped.computing.runtimes import registry

ROOT = Path(__file__).parents[2]
PLAIN, GRAPH, TF32, HALF = "onnxruntime-cuda", "onnxruntime-cuda-graph", "onnxruntime-cuda-tf32", "onnxruntime-cuda-float16"
ON_CPU = "onnxruntime"
DEFAULT = ("lstm", "textcnn", "bert-small", "resnet18")
_LATE = -1000  # in place of the exit code of a stage that was killed at the deadline
_AGAIN = 3  # times as long as the stage may the second measurement take
_BEFORE, _MEASURED = ("prepare", "train", "export", "optimize", "verify"), "benchmark"


@dataclass
class Trial:
    """One model: its folder, the rows of verify and benchmark, and why it ended early if it did; `late` if the time was over."""

    name: str
    folder: Path
    failed: str = ""
    late: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    regret: Regret | None = None

    def row(self, stage: str, candidate: str) -> dict[str, Any]:
        """What the report of a stage says about a candidate; empty if nothing."""
        report = self.folder / f"reports/{stage}.json"
        rows = json.loads(report.read_text(encoding="utf-8"))["candidates"] if report.exists() else {}
        return dict(rows.get(candidate, {}))

    @property
    def chosen(self) -> str:
        report = self.folder / "reports/benchmark.json"
        return str(json.loads(report.read_text(encoding="utf-8"))["facts"].get("winner", "")) if report.exists() else ""


def run(names: Sequence[str], work: Path, *, candidates: Sequence[str], deadline: float = math.inf, short: bool = False) -> list[Trial]:
    """Run the models through the stages; a stage that fails ends its model, with the last line that it printed.

    So does one that runs at the `deadline`, on the monotonic clock. A choice is measured again only if that can take as long as before.
    """
    trials = [_prepared(name, work / name, candidates, short=short) for name in names]
    with ThreadPoolExecutor(max(1, min(len(trials), (os.cpu_count() or 2) // 2))) as pool:
        list(pool.map(lambda trial: _stages(trial, _BEFORE, deadline), trials))
    for trial in trials:
        _stages(trial, (_MEASURED,), deadline)
        if not trial.failed and time.monotonic() + _AGAIN * trial.seconds[_MEASURED] < deadline:
            with chdir(trial.folder):
                settings = loading.load(Path("params.yaml"))
                rows = contest.rows_of(Path("reports"))
                trial.regret = contest.look_again(settings, rows, trial.chosen, more=2)
    return trials


def _prepared(name: str, folder: Path, candidates: Sequence[str], *, short: bool) -> Trial:
    folder.mkdir(parents=True)
    values = loading.merge(loading.read(ROOT / "params.yaml"), models.settings(name, short=short))
    values["optimize"] |= {"candidates": list(candidates), "tune_seconds": 0 if short else 1}
    values["benchmark"] |= {} if short else {"max_seconds": 20}
    write_pins(ROOT / "docker/requirements", folder / "docker/requirements")
    (folder / "seed").write_text("7", encoding="utf-8")
    (folder / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")
    return Trial(name, folder)


def write_pins(source: Path, target: Path) -> None:
    """Copy the pins of the images, with NVIDIA's libraries as they are installed: on this machine they may be others than in an image."""
    target.mkdir(parents=True)
    for file in source.glob("*.txt"):
        lines = [_installed(line) if line.startswith("nvidia-") else line for line in file.read_text(encoding="utf-8").splitlines()]
        (target / file.name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _installed(pin: str) -> str:
    name = pin.partition("==")[0]
    try:
        return f"{name}=={version(name)}"
    except PackageNotFoundError:
        return pin


def _stages(trial: Trial, stages: Sequence[str], deadline: float) -> None:
    for stage in stages if not trial.failed else ():
        start = time.monotonic()
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))}
        code, said = _ended([sys.executable, "-m", f"tasks.{stage}"], trial.folder, environment, deadline)
        trial.seconds[stage] = round(time.monotonic() - start, 1)
        print(f"{trial.name}: {stage} {'failed' if code else 'done'}, {trial.seconds[stage]:.0f} s", file=sys.stderr, flush=True)
        if code:
            trial.late, trial.failed = code == _LATE, f"{stage}: {said}"
            return


def _ended(command: Sequence[str], folder: Path, environment: Mapping[str, str], deadline: float) -> tuple[int, str]:
    """The exit code of a command and the last line of its errors; it is killed with all that it started at the deadline."""
    left = deadline - time.monotonic()
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", start_new_session=True
    )
    try:
        _, errors = process.communicate(timeout=max(0.0, left) if math.isfinite(left) else None)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return _LATE, "the time of the check was over"
    return process.returncode, ([*errors.strip().splitlines()] or ["it said nothing"])[-1]


def missing() -> str:
    """Why the candidates of the check cannot run here, with the next step; empty if they can."""
    return registry.kinds()[PLAIN].unavailable()
