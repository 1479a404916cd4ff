"""`make pipeline-bench`: the time that versioning, orchestration and tracking add to the bare stages, on the quick example.

Each round measures the bare stages, `dvc repro`, the whole flow, and the flow without changes, each in a fresh clone. The results
are medians over the rounds; SHORT=1 is one round. Needs a Docker engine.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import get_args

import yaml

from flows.stages import Until
from paddleship.config import params
from paddleship.system import host

_QUICK = {"train": {"epochs": 2}, "benchmark": {"max_seconds": 2}, "accept": {"load_requests": 200}}
_GOAL_UNCHANGED_S = 15.0


def main() -> None:
    """Print a table for people and, as the last line, the same figures as JSON; exit 3 when the goal is missed."""
    rounds = 1 if os.environ.get("SHORT") else 3
    seconds: dict[str, list[float]] = {"bare_stages_s": [], "dvc_repro_s": [], "flow_s": [], "flow_unchanged_s": []}
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as scratch:
            bare, repro, flow = (_clone(Path(scratch) / name) for name in ("bare", "repro", "flow"))
            seconds["bare_stages_s"].append(sum(_timed(bare, f"tasks.{stage}") for stage in get_args(Until)))
            seconds["dvc_repro_s"].append(_timed(repro, "dvc", "repro", "accept"))
            seconds["flow_s"].append(_timed(flow, "flows.cli", "run"))
            seconds["flow_unchanged_s"].append(_timed(flow, "flows.cli", "run"))
        print(f"round {number + 1}/{rounds}: " + ", ".join(f"{name} {values[-1]:.1f}" for name, values in seconds.items()), flush=True)
    figures = {name: round(statistics.median(values), 2) for name, values in seconds.items()}
    figures["dvc_adds_s"] = round(figures["dvc_repro_s"] - figures["bare_stages_s"], 2)
    figures["prefect_and_mlflow_add_s"] = round(figures["flow_s"] - figures["dvc_repro_s"], 2)
    print()
    for name, value in figures.items():
        spread = f"   {min(seconds[name]):.1f} to {max(seconds[name]):.1f}" if name in seconds else ""
        print(f"{name:26}{value:8.1f}{spread}")
    print(json.dumps({**figures, "goal_flow_unchanged_s": _GOAL_UNCHANGED_S, "rounds": rounds, "host": host.fingerprint()}))
    sys.exit(0 if figures["flow_unchanged_s"] < _GOAL_UNCHANGED_S else 3)


def _clone(target: Path) -> Path:
    """A checkout of the commit, with the params of the linear example."""
    subprocess.run(["git", "clone", "--quiet", str(Path(__file__).parents[1]), str(target)], check=True)
    values = yaml.safe_load((target / "params.yaml").read_text(encoding="utf-8"))
    overlay = yaml.safe_load((target / "examples/linear/params.yaml").read_text(encoding="utf-8"))
    merged = params.merge(params.merge(values, overlay), _QUICK)
    (target / "params.yaml").write_text(yaml.safe_dump(merged, sort_keys=False), encoding="utf-8")
    return target


def _timed(folder: Path, module: str, *arguments: str) -> float:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PYTHONPATH": str(folder), "PATH": path}
    start = time.perf_counter()
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout[-2000:] + done.stderr[-2000:], file=sys.stderr)
        sys.exit(done.returncode)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
