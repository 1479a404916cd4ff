"""`make promote-bench`: the requests that fail while versions are promoted and rolled back, and how long a rollback takes.

Two versions of the linear example are made and promoted by the commands that users give, behind the proxy of a Docker target; first
their servers are one process each, then two. Clients send one request after the other all the while over HTTP and gRPC, half of them over
one connection each and half with a new one for every request. Prints a table for people and, as the last line, its figures as JSON; exits 3
when a goal is missed. `SHORT=1` is the form that CI runs: two rollbacks.
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

from benchmarks.promote.constant_load import Seen, calling, sending
from paddleship.acceptance.transports.grpc import triton
from paddleship.config import loading
from paddleship.config.sections.promote import Target
from paddleship.containers import image
from paddleship.rollout.docker_target import DockerTarget
from paddleship.servers import background
from paddleship.system import host

_ROLLBACKS = 10
_ROWS = (  # name, text and goal of a figure
    ("http_requests_sent", "HTTP requests sent", None),
    ("http_requests_failed", "HTTP requests failed", 0),
    ("http_longest_request_ms", "longest over HTTP, ms", None),
    ("grpc_requests_sent", "gRPC requests sent", None),
    ("grpc_requests_failed", "gRPC requests failed", 0),
    ("grpc_longest_request_ms", "longest over gRPC, ms", None),
    ("promotion_s", "promotion, s", None),
    ("rollback_median_s", "rollback, s: median", None),
    ("rollback_longest_s", "rollback, s: longest", 30.0),
)
_QUICK = {
    "train": {"epochs": 2},
    "optimize": {"candidates": ["onnxruntime"], "tune_seconds": 0},
    "benchmark": {"max_seconds": 2, "scenario_seconds": 1, "max_busy_share": 1.0},
    "accept": {"load_requests": 100},
}
_X = {"name": "x", "datatype": "FP32", "shape": [1, 2]}
_BODY = json.dumps({"inputs": [{**_X, "data": [0.5, 1.5]}]}).encode()
_PROCESSES = (1, 2)


def main() -> None:
    count = 2 if os.environ.get("SHORT") else _ROLLBACKS
    with tempfile.TemporaryDirectory() as scratch:
        target = {"kind": "docker", "name": f"bench-{os.getpid()}", "port": background.free_port(), "grpc_port": background.free_port()}
        checkout = _clone(Path(scratch) / "checkout", target)
        try:
            runs = {processes: _measure(checkout, target, count, processes=processes) for processes in _PROCESSES}
        finally:
            _remove(target)
    print(f"\n{'server processes':<26}" + "".join(f"{processes:>10}" for processes in runs))
    for name, text, goal in _ROWS:
        values = "".join(f"{run[name]:>10,.{1 if name.endswith('_s') else 0}f}" for run in runs.values())
        print(f"{text:<26}{values}{'' if goal is None else f'   goal {goal:g}'}")
    figures = {f"{name}_processes_{processes}": value for processes, run in runs.items() for name, value in run.items()}
    goals = {f"goal_{name}": goal for name, _, goal in _ROWS if goal is not None}
    print(json.dumps({**figures, **goals, "host": host.fingerprint()}))
    missed = [name for name, _, goal in _ROWS for run in runs.values() if goal is not None and run[name] > goal]
    sys.exit(3 if missed else 0)


def _measure(checkout: Path, target: dict[str, Any], count: int, *, processes: int) -> dict[str, float]:
    """The first version serves; under load the second is promoted, then each is brought back in its turn."""
    older, newer = (f"{2 * _PROCESSES.index(processes) + number}" for number in (1, 2))
    _set(checkout, seed=7, package={"processes": processes})
    _run(checkout, "run")
    _run(checkout, "promote")
    _set(checkout, seed=8)
    message = triton.message(model_name="linear", inputs=[{**_X, "contents": {"fp32_contents": [0.5, 1.5]}}])
    with (
        sending(target["port"], "/v2/models/linear/infer", _BODY) as over_http,
        calling(target["grpc_port"], f"{triton.METHODS}ModelInfer", message) as over_grpc,
    ):
        _run(checkout, "run")
        promotion_s = _run(checkout, "promote")
        print(f"version {newer} promoted in {promotion_s:.1f} s, {_said(over_http, over_grpc)}", flush=True)
        rollbacks = []
        for number in range(count):
            version = (older, newer)[number % 2]
            rollbacks.append(_run(checkout, "rollback", version))
            print(f"version {version} is back after {rollbacks[-1]:.1f} s, {_said(over_http, over_grpc)}", flush=True)
    return {
        **_counts("http", over_http),
        **_counts("grpc", over_grpc),
        "switches": count + 1,
        "promotion_s": round(promotion_s, 2),
        "rollback_median_s": round(statistics.median(rollbacks), 2),
        "rollback_longest_s": round(max(rollbacks), 2),
    }


def _counts(transport: str, seen: Seen) -> dict[str, float]:
    longest_ms = round(seen.longest_ms, 1)
    return {
        f"{transport}_requests_sent": seen.sent,
        f"{transport}_requests_failed": len(seen.errors),
        f"{transport}_longest_request_ms": longest_ms,
    }


def _said(*loads: Seen) -> str:
    sent, errors = sum(seen.sent for seen in loads), [error for seen in loads for error in seen.errors]
    return f"{sent:,} requests so far, {len(errors)} failed{f' (the first: {errors[0]})' if errors else ''}"


def _clone(checkout: Path, target: dict[str, Any]) -> Path:
    """A checkout of the commit, with quick params of the linear example and a target."""
    subprocess.run(["git", "clone", "--quiet", str(Path(__file__).parents[2]), str(checkout)], check=True)
    values = loading.merge(loading.read(checkout / "params.yaml"), loading.read(checkout / "examples/linear/params.yaml"))
    package = {"repository": f"paddleship/{target['name']}", "transports": ["http", "grpc"]}
    values = loading.merge(loading.merge(values, _QUICK), {"package": package})
    _write(checkout, {**values, "promote": {"rows": 50, "latency_seconds": 5, "allow_slower": True, "target": target}})
    return checkout


def _set(checkout: Path, **values: Any) -> None:
    _write(checkout, loading.merge(loading.read(checkout / "params.yaml"), values))


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
