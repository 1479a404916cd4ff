"""accept: the image behind bars, asked what the eager model was asked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from paddleship import custody, dataset
from paddleship.benchmark import statistics
from paddleship.candidate import Candidate
from paddleship.client import Client, ServerError, decode_answer, encode_request
from paddleship.errors import PaddleshipError
from paddleship.files import read_json, write_text
from paddleship.load import Load, closed_loop
from paddleship.params import Accept, Params
from paddleship.progress import Progress
from paddleship.proof import parity, stability
from paddleship.proof.evidence import Evidence
from paddleship.report import Report
from paddleship.runtimes import Arrays
from paddleship.verdict import Check, Verdict
from tasks import image
from tasks.stage import main

_STOP_TIMEOUT_S = 20
_POLL_S = 0.02
_STOPPED_WELL = (0, 143)  # 143: the init process passes the SIGTERM on
_NONSENSE = b'{"inputs": [{"name": "nothing", "datatype": "FP32", "shape": [1], "data": [1]}]}'


@dataclass(frozen=True)
class Seen:
    """What was measured from outside the container. `answers` are in the order of the evidence's cases, `faults` what went unanswered.

    `crowded` are the distinct answers to the first cases while several clients asked at once.
    """

    cold_start_ms: float
    answers: list[Arrays]
    faults: list[str]
    load: Load
    crowded: list[list[Arrays]]
    refused_status: int
    health_status: int
    peak_memory_bytes: int
    stop_s: float
    exit_code: int


class NotReadyError(PaddleshipError):
    """The container ended, or did not become ready in time; the message is its log."""


def accept(params: Params) -> Report:
    """Run the image hardened, compare its answers over HTTP with the eager ones, measure it, stop it, and write the release.

    Only an image that passes gets its name; one that is refused loses its tag, and with it goes the image.
    """
    receipt = read_json(Path(params.paths.image), stage="package")
    candidate = Candidate.load(Path(params.paths.candidates) / receipt["lineage"]["candidate"])
    custody.require_proven(candidate, read_json(Path(params.paths.parity) / "passed.json", stage="verify"))
    noted = receipt["lineage"]["candidate_digest"]
    custody.require(f"the candidate {candidate.name!r}", candidate.digest, noted, by="package", again="-f package")
    with closing(image.connect()) as client:
        image.require_built(client, receipt)
        report = _try(client, receipt, candidate, params)
        if report.verdict:
            image.name(client, receipt["image_id"], receipt["image"])
        image.untag(client, receipt["unaccepted"])
    return report


def _try(client: Any, receipt: dict[str, Any], candidate: Candidate, params: Params) -> Report:
    """Run the image, judge what it answered, and write the release."""
    evidence = Evidence.load(Path(params.paths.parity)).only(lambda case: bool(case.rows))
    bodies = _requests(params, evidence)
    try:
        seen = _observe(client, receipt["image_id"], candidate, bodies, params)
    except NotReadyError as obstacle:
        return _refused(obstacle)
    judgement = parity.judge(evidence, seen.answers, limits=params.verify, precision=candidate.precision) if not seen.faults else None
    checks = _checks(seen, params.accept)
    if judgement is not None:
        checks += [*judgement.checks, _crowd_check(evidence, seen, params)]
    verdict = Verdict(checks=checks)
    metrics = _metrics(seen, judgement)
    _write_release(params, receipt, verdict, metrics)
    return Report(
        stage="accept",
        headline=(
            f"{len(seen.answers)} batches over HTTP as eager, cold start {seen.cold_start_ms:.0f} ms, "
            f"{seen.load.throughput_per_s:,.0f} requests/s"
        )
        if verdict
        else f"refused: {verdict.failures[0]}",
        metrics=metrics,
        verdict=verdict,
        facts={
            "image": receipt["image"],
            "loop": "closed",
            "concurrency": params.accept.concurrency,
            "requests": params.accept.load_requests,
        },
    )


def _observe(client: Any, image_id: str, candidate: Candidate, bodies: list[bytes], params: Params) -> Seen:
    """Start the container, ask it everything, stop it. Raises NotReadyError."""
    start = time.perf_counter()
    with image.jail(client, image_id, memory_bytes=params.accept.memory_bytes) as jail:
        connect = partial(Client, jail.host, jail.port, model=params.name)
        _wait_until_ready(connect, jail, deadline=start + params.accept.ready_timeout_s)
        server = connect()
        try:
            server.send(bodies[0])
            cold_start_ms = 1000 * (time.perf_counter() - start)
            print(f"ready and answering after {cold_start_ms:.0f} ms")
            answers, faults = _ask(server, bodies, candidate)
            load = closed_loop(connect, bodies[:4], requests=params.accept.load_requests, concurrency=params.accept.concurrency)
            crowded = [[decode_answer(answer, candidate.outputs) for answer in told] for told in load.answers]
            refused_status, health_status = _status(server.send, _NONSENSE), _status(server.get, "/v2/health/ready")
        finally:
            server.close()
        memory = jail.peak_memory_bytes()
        stop_s, exit_code = jail.stop(timeout_s=_STOP_TIMEOUT_S)
    return Seen(cold_start_ms, answers, faults, load, crowded, refused_status, health_status, memory, stop_s, exit_code)


def _checks(seen: Seen, limits: Accept) -> list[Check]:
    fault, failure = (found[0] if found else "" for found in (seen.faults, seen.load.failures))
    slow = "raise accept.max_cold_start_ms, or ship a smaller model"
    stopped = seen.exit_code in _STOPPED_WELL
    return [
        Check.at_most("unanswered_batches", len(seen.faults), 0, advice=f"the server failed: {fault}"),
        Check.at_most("cold_start_ms", seen.cold_start_ms, limits.max_cold_start_ms, advice=slow),
        Check.at_most("failed_requests", len(seen.load.failures), 0, advice=f"under load: {failure}"),
        _exactly("bad_request_status", seen.refused_status, 400, advice="a bad request must be refused"),
        _exactly("health_after_load", seen.health_status, 200, advice="the server lost its health"),
        Check(name="exit_code", measured=seen.exit_code, limit="0 or 143", passed=stopped, advice="the server did not stop by itself"),
    ]


def _crowd_check(evidence: Evidence, seen: Seen, params: Params) -> Check:
    """Whether clients that ask at the same time get what one client gets, in units of eager's own noise."""
    pairs = [(place, answer) for place, told in enumerate(seen.crowded) for answer in told]
    places = [place for place, _ in pairs]
    change = stability.change(evidence, places, [seen.answers[place] for place in places], [answer for _, answer in pairs])
    advice = "clients that ask at the same time get other answers: let them take turns at the runtime"
    return Check.at_most("http_threads_ratio", change, params.verify.noise_limit, advice=advice)


def _exactly(name: str, measured: int, limit: int, *, advice: str) -> Check:
    return Check(name=name, measured=measured, limit=limit, passed=measured == limit, advice=advice)


def _metrics(seen: Seen, judgement: parity.Judgement | None) -> dict[str, float | int]:
    tail = statistics.percentiles(seen.load.samples_ms)
    return {
        **(
            {f"http_{key}": value for key, value in judgement.metrics.items() if key in ("noise_ratio", "flip_rate")}
            if judgement is not None
            else {}
        ),
        "cold_start_ms": seen.cold_start_ms,
        **{f"http_{key}": value for key, value in tail.items() if value is not None},
        "http_throughput_per_s": seen.load.throughput_per_s,
        "container_peak_memory_bytes": seen.peak_memory_bytes,
        "stop_ms": 1000 * seen.stop_s,
        "accepted_batches": len(seen.answers),
    }


def _requests(params: Params, evidence: Evidence) -> list[bytes]:
    """One request per case of the evidence, from the rows as a client would hold them."""
    preprocess, _, _ = dataset.read_preprocess(Path(params.paths.prepared))
    rows = dataset.read(Path(params.paths.prepared), "test")
    return [encode_request(preprocess, rows.take(case.rows).columns) for case in evidence.cases]


def _wait_until_ready(connect: Callable[..., Client], jail: image.Jail, *, deadline: float) -> None:
    """Poll until the server says that it is ready. Raises NotReadyError."""
    while time.perf_counter() < deadline:
        state = jail.state
        if not state["Running"]:
            raise NotReadyError(f"the container ended with {state['ExitCode']}: {jail.logs().strip()[-400:]}")
        client = connect(timeout_s=2)
        try:
            if _status(client.get, "/v2/health/ready") == 200:
                return
        finally:
            client.close()
        time.sleep(_POLL_S)
    raise NotReadyError(f"not ready in time: {jail.logs().strip()[-400:]}")


def _status(exchange: Callable[[Any], tuple[int, bytes]], argument: str | bytes) -> int:
    """The HTTP status of one exchange, 0 when the server does not answer."""
    try:
        return exchange(argument)[0]
    except ServerError:
        return 0


def _ask(server: Client, bodies: list[bytes], candidate: Candidate) -> tuple[list[Arrays], list[str]]:
    progress = Progress("comparing over HTTP", len(bodies), "batches")
    answers, faults = [], []
    for body in bodies:
        try:
            answers.append(server.infer(body, candidate.outputs))
        except ServerError as error:
            faults.append(str(error))
        progress.advance()
    return answers, faults


def _refused(obstacle: NotReadyError) -> Report:
    check = Check(name="ready", measured=str(obstacle), limit="ready", passed=False, advice="run the image by hand and look at its log")
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
