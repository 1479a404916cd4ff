"""accept: the image behind bars, asked what the eager model was asked."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

from paddleship import benchmarking, dataset, parity
from paddleship.candidate import Candidate
from paddleship.client import Client, ServerError, encode_request
from paddleship.errors import BadInput
from paddleship.files import write_text
from paddleship.load import closed_loop
from paddleship.params import Params
from paddleship.progress import Progress
from paddleship.report import Report
from paddleship.verdict import Check, Verdict
from tasks import image
from tasks.stage import main

_STOP_TIMEOUT_S = 20
_STOPPED_WELL = (0, 143)  # 143: the init process passes the SIGTERM on


def accept(params: Params) -> Report:
    """Run the image hardened, compare its answers over HTTP with the eager ones, measure it, stop it, and write the release."""
    receipt = json.loads(Path(params.paths.image).read_text())
    client = image.connect()
    if not image.exists(client, receipt["image_id"]):
        raise BadInput(f"image {receipt['image']!r} is not in the engine any more: build it again with `dvc repro -f package`")
    evidence = parity.Evidence.load(Path(params.paths.parity))
    candidate = Candidate.load(Path(params.paths.candidates) / receipt["lineage"]["candidate"])
    bodies = _requests(params, evidence)

    start = time.perf_counter()
    with image.jail(client, receipt["image_id"], memory_bytes=params.accept.memory_bytes) as jail:
        connect = partial(Client, jail.host, jail.port, model=params.name)
        obstacle = _wait_until_ready(connect, jail, deadline=start + params.accept.ready_timeout_s)
        if obstacle:
            return _refused(obstacle)
        server = connect()
        server.infer(bodies[0], candidate.outputs)
        cold_start_ms = 1000 * (time.perf_counter() - start)
        print(f"ready and answering after {cold_start_ms:.0f} ms")
        answers, faults = _ask(server, bodies, candidate)
        load = closed_loop(connect, bodies[:4], requests=params.accept.load_requests, concurrency=params.accept.concurrency)
        refused, _ = server.send(b'{"inputs": [{"name": "nothing", "datatype": "FP32", "shape": [1], "data": [1]}]}')
        healthy, _ = server.get("/v2/health/ready")
        server.close()
        memory = jail.peak_memory_bytes()
        stop_s, exit_code = jail.stop(timeout_s=_STOP_TIMEOUT_S)

    checks = [Check.at_most("unanswered_batches", len(faults), 0, advice=f"the server failed: {faults[0] if faults else ''}")]
    judgement = parity.judge(evidence, answers, noise_limit=params.verify.noise_limit) if not faults else None
    if judgement:
        checks += judgement.checks
    checks += [
        Check.at_most(
            "cold_start_ms",
            cold_start_ms,
            params.accept.max_cold_start_ms,
            advice="raise accept.max_cold_start_ms, or ship a smaller model",
        ),
        Check.at_most("failed_requests", len(load.failures), 0, advice=f"under load: {load.failures[0] if load.failures else ''}"),
        Check(name="bad_request_status", measured=refused, limit=400, passed=refused == 400, advice="a bad request must be refused"),
        Check(name="health_after_load", measured=healthy, limit=200, passed=healthy == 200, advice="the server lost its health"),
        Check(
            name="exit_code",
            measured=exit_code,
            limit="0 or 143",
            passed=exit_code in _STOPPED_WELL,
            advice="the server did not stop by itself",
        ),
    ]
    verdict = Verdict(checks=checks)
    tail = {f"http_{key}": value for key, value in benchmarking.percentiles(load.samples_ms).items() if value is not None}
    metrics = {
        **({f"http_{key}": value for key, value in judgement.metrics.items()} if judgement else {}),
        "cold_start_ms": cold_start_ms,
        **tail,
        "http_throughput_per_s": load.throughput_per_s,
        "container_peak_memory_bytes": memory,
        "stop_ms": 1000 * stop_s,
        "accepted_batches": len(answers),
    }
    _write_release(params, receipt, verdict, metrics)
    return Report(
        stage="accept",
        headline=f"{len(answers)} batches over HTTP as eager, cold start {cold_start_ms:.0f} ms, {load.throughput_per_s:,.0f} requests/s",
        metrics=metrics,
        verdict=verdict,
        facts={
            "image": receipt["image"],
            "loop": "closed",
            "concurrency": params.accept.concurrency,
            "requests": params.accept.load_requests,
        },
    )


def _requests(params: Params, evidence: parity.Evidence) -> list[bytes]:
    """One request per case of the evidence, from the rows as a client would hold them."""
    preprocess, _, _ = dataset.read_preprocess(Path(params.paths.prepared))
    rows = dataset.read(Path(params.paths.prepared), "test")
    return [encode_request(preprocess, rows.take(case.rows).columns) for case in evidence.cases]


def _wait_until_ready(connect: Any, jail: image.Jail, *, deadline: float) -> str:
    """Poll until the server says that it is ready; what went wrong otherwise, in words."""
    while time.perf_counter() < deadline:
        state = jail.state
        if not state["Running"]:
            return f"the container ended with {state['ExitCode']}: {jail.logs().strip()[-400:]}"
        client = connect(timeout_s=2)
        try:
            if client.get("/v2/health/ready")[0] == 200:
                return ""
        except ServerError:
            pass
        finally:
            client.close()
        time.sleep(0.02)
    return f"not ready in time: {jail.logs().strip()[-400:]}"


def _ask(server: Client, bodies: list[bytes], candidate: Candidate) -> tuple[list[Any], list[str]]:
    progress = Progress("comparing over HTTP", len(bodies), "batches")
    answers, faults = [], []
    for body in bodies:
        try:
            answers.append(server.infer(body, candidate.outputs))
        except ServerError as error:
            faults.append(str(error))
        progress.advance()
    return answers, faults


def _refused(obstacle: str) -> Report:
    check = Check(name="ready", measured=obstacle, limit="ready", passed=False, advice="run the image by hand and look at its log")
    return Report(stage="accept", headline="the container never became ready", verdict=Verdict(checks=[check]))


def _write_release(params: Params, receipt: dict[str, Any], verdict: Verdict, metrics: dict[str, Any]) -> None:
    """Everything that leads back from this image, in one file."""
    release = {
        "schema_version": 1,
        **receipt["lineage"],
        "image": receipt["image"],
        "image_id": receipt["image_id"],
        "image_bytes": receipt["size_bytes"],
        "base_image": receipt["base_image"],
        "base_image_id": receipt["base_image_id"],
        "accepted": verdict.passed,
        "acceptance": metrics,
        "params": params.model_dump(mode="json"),
    }
    write_text(Path(params.paths.release), json.dumps(release, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main(accept)
