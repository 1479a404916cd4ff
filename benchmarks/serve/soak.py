"""`make serve-soak`: minutes of mixed load on the container of an accepted image, with every answer compared with eager's.

The image is that of the checkout (PARAMS names another params file). Batches of the proof are sent in JSON, compressed, in binary tensors,
and over gRPC if the image offers it, at 80% of the rate that the same clients reach without a pause. The memory of the container is read
every two seconds; its slope has the interval of Theil and Sen. Prints a table and, as the last line, the figures as JSON; exits 3 if a
request failed or was answered wrongly, if memory grew measurably and by more than 2% of what it was, or if a process of the server ended.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.serve import soaking
from benchmarks.serve.soaking import Load, Seen
from paddleship.acceptance.transports import replaced_processes, server_at
from paddleship.config import params_overlay
from paddleship.config.params import Params
from paddleship.containers import image, image_test
from paddleship.containers.sandbox import Sandbox, in_sandbox
from paddleship.data import dataset
from paddleship.errors import PaddleshipError
from paddleship.lineage import receipts
from paddleship.proof.evidence import Evidence
from paddleship.shipped.computing import preprocess
from paddleship.shipped.computing.candidate import Candidate
from paddleship.system import host

_SECONDS, _SHORT_SECONDS, _FASTEST_S, _SAMPLE_S = 600.0, 10.0, 4.0, 2.0
_SHARE, _PROCESSES, _MOST_GROWTH = 0.8, 2, 0.02
_READY_S, _CONNECTIONS = 60, 2  # of each client, for each process of the server


def main() -> None:
    short = bool(os.environ.get("SHORT"))
    params = params_overlay.load(Path.cwd(), os.environ.get("PARAMS") or None)
    try:
        figures, seen = _soak(params, _SHORT_SECONDS if short else _SECONDS)
    except PaddleshipError as error:
        sys.exit(f"error: {error}")
    print(_table(seen))
    for fault in seen.faults:
        print(f"  {fault}")
    missed = [name for name in ("errors", "wrong", "memory_grew", "replaced") if figures[name]]
    print(json.dumps({**figures, "goal_missed": len(missed), "host": host.fingerprint()}))
    sys.exit(3 if missed else 0)


def _soak(params: Params, seconds: float) -> tuple[dict[str, Any], Seen]:
    receipt = receipts.read(Path(params.paths.image))
    candidate = Candidate.load(Path(params.paths.candidates) / receipt["lineage"]["candidate"])
    ports = (image_test.PORT, *params.package.ports.values())
    with image.engine() as client, in_sandbox(client, receipt["image_id"], memory_bytes=params.accept.memory_bytes, ports=ports) as box:
        server = server_at(box.host, box.port, model=params.name, timeout_s=30)
        image_test.wait_until_ready(server, box, deadline=time.perf_counter() + _READY_S)
        load = _load(params, candidate, [server, *image_test.other_servers(box, server, params)])
        soaking.wait_for_answer(load)
        fastest = soaking.run(load, processes=_PROCESSES, seconds=_FASTEST_S, rate=None).answered / _FASTEST_S
        print(f"{fastest:,.0f} requests/s without a pause; {seconds:g} s at {_SHARE:.0%} of it", flush=True)
        with _memory(box) as memory:
            seen = soaking.run(load, processes=_PROCESSES, seconds=seconds, rate=_SHARE * fastest)
        replaced = replaced_processes(server)
    found = {"seconds": seconds, "rate_per_s": round(seen.answered / seconds, 1), "server_processes": params.package.processes}
    return {**found, "replaced": replaced, **_counts(seen), **growth(memory)}, seen


def _load(params: Params, candidate: Candidate, servers: list[Any]) -> Load:
    evidence = Evidence.load(Path(params.paths.parity)).only(lambda case: bool(case.rows))
    rows = dataset.read(Path(params.paths.prepared), "test")
    encoders = preprocess.build(candidate.preprocess, candidate.inputs)
    batches = [rows.take(case.rows).columns for case in evidence.cases]
    pads = {spec.name: spec.pad for spec in encoders.requests}
    served, connections = image_test.served_candidate(candidate, params), _CONNECTIONS * params.package.processes
    return Load(servers, batches, pads, evidence, served, params.verify, connections)


@contextmanager
def _memory(box: Sandbox) -> Iterator[list[tuple[float, float]]]:
    """Seconds and bytes of the container's memory, while the block runs."""
    samples, ended = list[tuple[float, float]](), threading.Event()

    def read() -> None:
        began = time.perf_counter()
        while not ended.wait(_SAMPLE_S):
            samples.append((time.perf_counter() - began, float(box.memory_bytes())))

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def growth(samples: list[tuple[float, float]]) -> dict[str, Any]:
    """The memory at the beginning, its slope with the 95% interval, and whether it grew measurably and by more than is noise."""
    from scipy.stats import theilslopes

    times, used = zip(*samples, strict=True)
    slope, _, low, high = theilslopes(used, times)
    share = slope * (times[-1] - times[0]) / used[0]
    return {
        "memory_bytes": round(used[0]),
        "memory_bytes_per_minute": [round(60 * value) for value in (slope, low, high)],
        "memory_growth_share": round(share, 4),
        "memory_grew": bool(low > 0 and share > _MOST_GROWTH),
    }


def _counts(seen: Seen) -> dict[str, int]:
    counters = {"errors": seen.errors, "wrong": seen.wrong, "busy": seen.busy}
    return {"answered": seen.answered, **{name: counter.total() for name, counter in counters.items()}}


def _table(seen: Seen) -> str:
    lines = [f"{'form':14} {'answered':>9} {'p50 ms':>8} {'p99 ms':>8} {'busy':>5} {'errors':>6} {'wrong':>6}"]
    for form in sorted({*seen.took_ms, *seen.errors}):
        took = seen.took_ms.get(form, [])
        counts = f"{seen.busy[form]:5} {seen.errors[form]:6} {seen.wrong[form]:6}"
        lines.append(f"{form:14} {len(took):9,} {soaking.quantile(took, 0.5):8.2f} {soaking.quantile(took, 0.99):8.2f} {counts}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
