"""`make zoo`: examine models, two at a time, run files to their image or error, and compare what came of them with the expectations.

Prints a table and, as the last line, the counts as JSON; exits 3 if an expectation is missed. `SHORT=1` is the form for CI. Names of
specimens, of modules, or `files` select some: `python -m benchmarks.zoo traps Gated`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import redirect_stdout
from pathlib import Path

from benchmarks.zoo.observing import Observation, examine, observe
from benchmarks.zoo.specimen import PROVEN, Specimen
from paddleship.doctor.examination import RuntimeRow
from paddleship.shipped.computing.paddle_logs import silence_paddle
from paddleship.system import host

_AT_ONCE = 2


def main() -> None:
    silence_paddle()
    from benchmarks.zoo import catalogue
    from benchmarks.zoo.files import catalogue as file_catalogue
    from benchmarks.zoo.files import visiting

    short, start = bool(os.environ.get("SHORT")), time.monotonic()
    names, files = file_catalogue.split(sys.argv[1:], short=short)
    try:
        models = catalogue.choose(names, short=short) if names is not None else []
    except ValueError as error:
        sys.exit(f"error: {error}")
    with redirect_stdout(sys.stderr):  # progress lines of the examinations
        seen = visit(models)
        ended = visiting.visit(files, until="train" if short else "accept")
    print("\n".join([*([table(seen)] if seen else []), *([visiting.table(ended)] if ended else [])]))
    missed = [observation.specimen.name for observation in (*seen, *ended) if not observation]
    figures = {
        "specimens": len(seen),
        "files": len(ended),
        "met": len(seen) + len(ended) - len(missed),
        "missed": len(missed),
        "goal_missed": 0,
        "missed_names": " ".join(missed),
        "specimen_max_s": round(max(observation.seconds for observation in (*seen, *ended)), 1),
        "total_s": round(time.monotonic() - start, 1),
        "host": host.fingerprint(),
    }
    print(json.dumps(figures))
    sys.exit(3 if missed else 0)


def visit(chosen: Sequence[Specimen]) -> list[Observation]:
    """Examine specimens, with a line for each; the observations are in the order of `chosen`."""
    done: dict[str, Observation] = {}
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(_AT_ONCE) as pool:
        waiting = {pool.submit(examine, specimen, Path(scratch) / specimen.name): specimen for specimen in chosen}
        for future in as_completed(waiting):
            observation = observe(waiting[future], *future.result())
            done[observation.specimen.name] = observation
            print(f"{len(done)}/{len(chosen)} {row(observation)}", file=sys.stderr, flush=True)
    return [done[specimen.name] for specimen in chosen]


def table(seen: Sequence[Observation]) -> str:
    """One line per specimen, followed by its missed expectations."""
    head = f"  {'specimen':22} {'expected':20} {'found':20} {'noise ratio of paddle, oneDNN, ONNX Runtime':45} seconds"
    return "\n".join([head, *(row(observation) for observation in seen)])


def row(observation: Observation) -> str:
    runtimes = ", ".join(_ratio(observation.runtimes.get(name)) for name in ("paddle", "paddle-onednn", "onnxruntime"))
    sign = "✓" if observation else "✗"
    outcome = f"{observation.specimen.expected:20} {observation.found:20}"
    line = f"{sign} {observation.specimen.name:22} {outcome} {runtimes:45} {observation.seconds:5.1f}"
    return "\n".join([line, *(f"      {miss}" for miss in observation.misses)])


def _ratio(runtime: RuntimeRow | None) -> str:
    if runtime is None:
        return "not tried"
    return f"{runtime.noise_ratio:.2g}" if runtime.status == PROVEN and runtime.noise_ratio is not None else runtime.status


if __name__ == "__main__":
    main()
