"""`make promote-bench`: the requests that fail while versions are promoted and rolled back, and how long a rollback takes.

Two versions of the linear example are made and promoted by the commands that users give, behind the proxy of a Docker target. Clients
send one request after the other all the while, half of them over one connection each and half with a new one for every request.
Prints a table for people and, as the last line, its figures as JSON; exits 3 when a goal is missed. `SHORT=1` is the form that CI
runs: two rollbacks.
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
from typing import Any

import yaml

from benchmarks.promote.constant_load import Seen, sending
from paddleship.config import loading
from paddleship.config.sections.promote import Target
from paddleship.containers import image
from paddleship.rollout.docker_target import DockerTarget
from paddleship.servers import background
from paddleship.system import host

_ROLLBACKS, _GOAL_S, _GOAL_ERRORS = 10, 30.0, 0
_QUICK = {
    "train": {"epochs": 2},
    "optimize": {"candidates": ["onnxruntime"], "tune_seconds": 0},
    "benchmark": {"max_seconds": 2, "scenario_seconds": 1, "max_busy_share": 1.0},
    "accept": {"load_requests": 100},
}
_REQUEST = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 1.5]}]}


def main() -> None:
    count = 2 if os.environ.get("SHORT") else _ROLLBACKS
    with tempfile.TemporaryDirectory() as scratch:
        target = {"kind": "docker", "name": f"bench-{os.getpid()}", "port": background.free_port()}
        checkout = _clone(Path(scratch) / "checkout", target)
        try:
            figures = _measure(checkout, target, count)
        finally:
            _remove(target)
    print()
    print(f"requests sent             {figures['requests_sent']:>8,}")
    print(f"requests failed           {figures['requests_failed']:>8}   goal {_GOAL_ERRORS}")
    print(f"longest request, ms       {figures['longest_request_ms']:>8.0f}")
    print(f"promotion, s              {figures['promotion_s']:>8.1f}")
    print(f"rollback, s: median       {figures['rollback_median_s']:>8.1f}")
    print(f"rollback, s: longest      {figures['rollback_longest_s']:>8.1f}   goal {_GOAL_S:g}")
    print(json.dumps({**figures, "goal_requests_failed": _GOAL_ERRORS, "goal_rollback_s": _GOAL_S, "host": host.fingerprint()}))
    sys.exit(0 if figures["requests_failed"] <= _GOAL_ERRORS and figures["rollback_longest_s"] < _GOAL_S else 3)


def _measure(checkout: Path, target: dict[str, Any], count: int) -> dict[str, float]:
    """Version 1 serves; under load version 2 is promoted, then each is brought back in its turn."""
    _run(checkout, "run")
    _run(checkout, "promote")
    _set(checkout, seed=8)
    with sending(target["port"], "/v2/models/linear/infer", json.dumps(_REQUEST).encode()) as seen:
        _run(checkout, "run")
        promotion_s = _run(checkout, "promote")
        print(f"version 2 promoted in {promotion_s:.1f} s, {_said(seen)}", flush=True)
        rollbacks = []
        for number in range(count):
            version = "12"[number % 2]
            rollbacks.append(_run(checkout, "rollback", version))
            print(f"version {version} is back after {rollbacks[-1]:.1f} s, {_said(seen)}", flush=True)
    return {
        "requests_sent": seen.sent,
        "requests_failed": len(seen.errors),
        "longest_request_ms": round(seen.longest_ms, 1),
        "switches": count + 1,
        "promotion_s": round(promotion_s, 2),
        "rollback_median_s": round(statistics.median(rollbacks), 2),
        "rollback_longest_s": round(max(rollbacks), 2),
    }


def _said(seen: Seen) -> str:
    return f"{seen.sent:,} requests so far, {len(seen.errors)} failed{f' (the first: {seen.errors[0]})' if seen.errors else ''}"


def _clone(checkout: Path, target: dict[str, Any]) -> Path:
    """A checkout of the commit, with quick params of the linear example and a target."""
    subprocess.run(["git", "clone", "--quiet", str(Path(__file__).parents[2]), str(checkout)], check=True)
    values = loading.merge(loading.read(checkout / "params.yaml"), loading.read(checkout / "examples/linear/params.yaml"))
    values = loading.merge(loading.merge(values, _QUICK), {"package": {"repository": f"paddleship/{target['name']}"}})
    _write(checkout, {**values, "promote": {"rows": 50, "latency_seconds": 5, "allow_slower": True, "target": target}})
    return checkout


def _set(checkout: Path, **values: Any) -> None:
    _write(checkout, {**loading.read(checkout / "params.yaml"), **values})


def _write(checkout: Path, values: dict[str, Any]) -> None:
    (checkout / "params.yaml").write_text(yaml.safe_dump(values, sort_keys=False), encoding="utf-8")


def _run(checkout: Path, *arguments: str) -> float:
    """The seconds that a command took, as its user waits for it; ends this program where it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PATH": path}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "paddleship.cli.main", *arguments],
        cwd=checkout,
        env=environment,
        check=False,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
    )
    if done.returncode:
        print(done.stdout[-2000:] + done.stderr[-2000:], file=sys.stderr)
        sys.exit(done.returncode)
    return time.perf_counter() - began


def _remove(target: dict[str, Any]) -> None:
    """Take the target and its images away."""
    client = image.connect()
    DockerTarget(client, Target(**target), memory_bytes=1).remove()
    for found in client.images.list(name=f"paddleship/{target['name']}"):
        image.remove(client, found)
    client.close()


if __name__ == "__main__":
    main()
